// SPDX-License-Identifier: Apache-2.0
//
// What is supported, and plain loops for it.

#include "test/emulator/cublaslt/product.h"

#include "test/emulator/driver/elements.h"
#include "test/emulator/driver/settings.h"

#include <cmath>

namespace ashlar::emulator {
namespace {

bool has(uint32_t epilogue, uint32_t part) {
  return (epilogue & part) == part;
}

// One matrix of a batch: the host's view of its elements.
struct Matrix {
  Matrix(const Layout &layout, CUdeviceptr address, int64_t batch) : layout(layout), width(elementBytes(layout.type)) {
    const size_t elements = layout.columns == 0 ? 0 : size_t(layout.ld) * (layout.columns - 1) + layout.rows;
    address += CUdeviceptr(batch * layout.batchStride * int64_t(width));
    data = Driver::get().mustResolve(address, elements * width, "a matrix of a product is not in device memory");
  }
  std::byte *at(size_t row, size_t column) const { return data + (row + column * size_t(layout.ld)) * width; }

  const Layout &layout;
  unsigned width;
  std::byte *data;
};

// Returns op(X) as f32, column major and dense.
std::vector<float> gather(const Matrix &matrix, bool transpose, bool tf32) {
  const size_t rows = transpose ? matrix.layout.columns : matrix.layout.rows,
               columns = transpose ? matrix.layout.rows : matrix.layout.columns;
  std::vector<float> values(rows * columns);
  for (size_t j = 0; j < columns; ++j) {
    for (size_t i = 0; i < rows; ++i) {
      const float value = loadElement(transpose ? matrix.at(j, i) : matrix.at(i, j), matrix.layout.type);
      values[i + j * rows] = tf32 ? roundToTf32(value) : value;
    }
  }
  return values;
}

float geluTanh(float x) {
  return 0.5f * x * (1 + std::tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

// The slope of geluTanh.
float geluTanhSlope(float x) {
  const double c = 0.7978845608028654, a = 0.044715, z = double(x), t = std::tanh(c * (z + a * z * z * z));
  return float(0.5 * (1 + t) + 0.5 * z * (1 - t * t) * c * (1 + 3 * a * z * z));
}

// The parts of an epilogue, whose numbers share bits.
struct Parts {
  explicit Parts(uint32_t epilogue)
      : isSlope(has(epilogue, CUBLASLT_EPILOGUE_DRELU) || has(epilogue, CUBLASLT_EPILOGUE_DGELU)), hasAuxiliary(has(epilogue, kAuxiliary)),
        relu(has(epilogue, CUBLASLT_EPILOGUE_RELU) || has(epilogue, CUBLASLT_EPILOGUE_DRELU)),
        gelu(has(epilogue, CUBLASLT_EPILOGUE_GELU) || has(epilogue, CUBLASLT_EPILOGUE_DGELU)), bias(has(epilogue, CUBLASLT_EPILOGUE_BIAS)) {
  }

  static constexpr uint32_t kAuxiliary = CUBLASLT_EPILOGUE_RELU_AUX & ~uint32_t(CUBLASLT_EPILOGUE_RELU);
  bool isSlope, hasAuxiliary, relu, gelu, bias;
};

// Bytes of device memory that go with a product.
std::byte *findVector(CUdeviceptr address, size_t bytes) {
  return Driver::get().mustResolve(address, bytes, "the bias of a product is not in device memory");
}

// What is done to an element of a product.
class Epilogue {
public:
  Epilogue(const Product &product, int64_t batch)
      : parts(product.description.epilogue), type(product.d.type), ld(size_t(product.description.auxiliaryLd)) {
    const Description &description = product.description;
    if (parts.bias) {
      bias = findVector(description.bias + CUdeviceptr(batch * description.biasBatchStride * elementBytes(type)),
                        product.d.rows * elementBytes(type));
    }
    if (parts.hasAuxiliary) {
      const size_t elements = ld * (product.d.columns - 1) + product.d.rows;
      auxiliary = findVector(description.auxiliary, parts.relu ? (elements + 7) / 8 : elements * elementBytes(type));
    }
  }

  float apply(float value, size_t row, size_t column) const {
    if (parts.bias) {
      value += loadElement(bias + row * elementBytes(type), type);
    }
    return parts.isSlope ? value * slope(row, column) : activate(value, row, column);
  }

private:
  Parts parts;
  cudaDataType type;
  size_t ld;
  std::byte *bias = nullptr, *auxiliary = nullptr;

  // The byte and bit of a mask. cuBLASLt documents no order: here the bits run backwards, so that nobody who expects another is right.
  std::pair<std::byte *, std::byte> bitOf(size_t row, size_t column) const {
    const size_t at = row + column * ld;
    return {auxiliary + at / 8, std::byte(0x80 >> at % 8)};
  }

  float slope(size_t row, size_t column) const {
    if (parts.relu) {
      const auto [byte, bit] = bitOf(row, column);
      return (*byte & bit) != std::byte(0) ? 1 : 0;
    }
    return geluTanhSlope(loadElement(auxiliary + (row + column * ld) * elementBytes(type), type));
  }

  float activate(float value, size_t row, size_t column) const {
    if (parts.hasAuxiliary && parts.relu) {
      const auto [byte, bit] = bitOf(row, column);
      *byte = value > 0 ? *byte | bit : *byte & ~bit;
    } else if (parts.hasAuxiliary) {
      storeElement(auxiliary + (row + column * ld) * elementBytes(type), type, value);
    }
    return parts.relu ? std::fmax(value, 0.0f) : parts.gelu ? geluTanh(value) : value;
  }
};

// Adds 1 to a number where the environment wants wrong results.
void spoil(std::byte *at, cudaDataType type) {
  if (setting("CUBLASLT_WRONG", 0) != 0) {
    storeElement(at, type, loadElement(at, type) + 1);
  }
}

// Sums op(A) (m, k) or op(B) (k, n), column major, over k into the bias vector.
void sumOperand(const Product &product, const std::vector<float> &a, const std::vector<float> &b, size_t k) {
  const bool first = product.description.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  if (!first && product.description.epilogue != CUBLASLT_EPILOGUE_BGRADB) {
    return;
  }
  const size_t count = first ? product.d.rows : product.d.columns;
  std::byte *out = findVector(product.description.bias, count * elementBytes(product.d.type));
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (size_t l = 0; l < k; ++l) {
      sum += first ? a[i + l * count] : b[l + i * k];
    }
    storeElement(out + i * elementBytes(product.d.type), product.d.type, sum);
  }
  spoil(out, product.d.type);
}

void multiplyOne(const Product &product, int64_t batch) {
  const bool transposeA = product.description.transposeA == CUBLAS_OP_T, transposeB = product.description.transposeB == CUBLAS_OP_T;
  const bool tf32 = product.description.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const std::vector<float> a = gather(Matrix(product.a, product.aAddress, batch), transposeA, tf32);
  const std::vector<float> b = gather(Matrix(product.b, product.bAddress, batch), transposeB, tf32);
  const Matrix d(product.d, product.dAddress, batch);
  const size_t m = product.d.rows, k = transposeA ? product.a.rows : product.a.columns;
  const Epilogue epilogue(product, batch);
  std::vector<float> sums(m);
  for (size_t j = 0; j < product.d.columns; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (size_t l = 0; l < k; ++l) {
      const float factor = b[l + j * k];
      const float *column = &a[l * m];
      for (size_t i = 0; i < m; ++i) {
        sums[i] += column[i] * factor;
      }
    }
    for (size_t i = 0; i < m; ++i) {
      float value = product.alpha * sums[i];
      if (product.beta != 0) {
        value += product.beta * loadElement(Matrix(product.c, product.cAddress, batch).at(i, j), product.c.type);
      }
      storeElement(d.at(i, j), product.d.type, epilogue.apply(value, i, j));
    }
  }
  spoil(d.at(0, 0), product.d.type);
  sumOperand(product, a, b, k);
}

const char *whyNotTypes(const Description &description, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  const bool single = a.type == CUDA_R_32F;
  if (elementBytes(a.type) == 0 || a.type != b.type) {
    return "A and B must both be f32, bf16 or f16";
  }
  if (c.type != d.type || (d.type != a.type && (single || d.type != CUDA_R_32F))) {
    return "C and D must both have the type of A, or f32";
  }
  if (description.scale != CUDA_R_32F ||
      (description.compute != CUBLAS_COMPUTE_32F && description.compute != CUBLAS_COMPUTE_32F_FAST_TF32)) {
    return "the compute type must be 32F or 32F_FAST_TF32, the scale type f32";
  }
  if (description.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && !single) {
    return "32F_FAST_TF32 is for f32";
  }
  return description.biasType == -1 || description.biasType == int32_t(d.type) ? nullptr : "the bias must have the type of D";
}

const char *whyNotShapes(const Description &description, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  const bool transposeA = description.transposeA == CUBLAS_OP_T, transposeB = description.transposeB == CUBLAS_OP_T;
  const uint64_t m = transposeA ? a.columns : a.rows, k = transposeA ? a.rows : a.columns;
  const uint64_t n = transposeB ? b.rows : b.columns;
  if ((transposeB ? b.columns : b.rows) != k || d.rows != m || d.columns != n || c.rows != m || c.columns != n) {
    return "the shapes of A, B, C and D do not fit";
  }
  for (const Layout *layout : {&a, &b, &c, &d}) {
    if (layout->order != CUBLASLT_ORDER_COL || layout->rows == 0 || layout->columns == 0 || layout->ld < int64_t(layout->rows)) {
      return "a layout is empty, not column major, or has a leading dimension less than its rows";
    }
    if (layout->batches != d.batches) {
      return "the batch counts differ";
    }
  }
  return nullptr;
}

// Returns what the environment takes away of an epilogue, or null.
const char *whyNotPlayed(uint32_t epilogue) {
  if (epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    return setting("CUBLASLT_BGRAD", 1) == 0 ? "ASHLAR_EMULATOR_CUBLASLT_BGRAD takes sums of an operand away" : nullptr;
  }
  const Parts parts(epilogue);
  if (parts.bias && setting("CUBLASLT_BIAS", 1) == 0) {
    return "ASHLAR_EMULATOR_CUBLASLT_BIAS takes the bias away";
  }
  if (parts.hasAuxiliary && (setting("CUBLASLT_AUXILIARY", 3) & (parts.isSlope ? 2 : 1)) == 0) {
    return "ASHLAR_EMULATOR_CUBLASLT_AUXILIARY takes auxiliary tensors away";
  }
  return (parts.relu || parts.gelu) && setting("CUBLASLT_ACTIVATION", 1) == 0
             ? "ASHLAR_EMULATOR_CUBLASLT_ACTIVATION takes relu and gelu away"
             : nullptr;
}

const char *whyNotAuxiliary(const Description &description, const Layout &d) {
  constexpr int64_t kMaskColumns = 128, kColumns = 8;
  constexpr CUdeviceptr kAlignment = 16;
  const int64_t multiple = Parts(description.epilogue).relu ? kMaskColumns : kColumns;
  if (description.auxiliary == 0 || description.auxiliary % kAlignment != 0) {
    return "the auxiliary tensor has no address, or one that is not aligned to 16 bytes";
  }
  if (description.auxiliaryLd < int64_t(d.rows) || description.auxiliaryLd % multiple != 0) {
    return "the leading dimension of the auxiliary tensor is less than D's rows, or no multiple of 128 (a mask) or 8";
  }
  return d.batches == 1 ? nullptr : "auxiliary tensors are played for one batch";
}

const char *whyNotEpilogue(const Description &description, const Layout &d) {
  if (const char *reason = whyNotPlayed(description.epilogue)) {
    return reason;
  }
  switch (description.epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
  case CUBLASLT_EPILOGUE_RELU:
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_RELU_BIAS:
  case CUBLASLT_EPILOGUE_GELU:
  case CUBLASLT_EPILOGUE_GELU_BIAS:
    return nullptr;
  case CUBLASLT_EPILOGUE_RELU_AUX:
  case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
  case CUBLASLT_EPILOGUE_DRELU:
  case CUBLASLT_EPILOGUE_GELU_AUX:
  case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
  case CUBLASLT_EPILOGUE_DGELU:
    return whyNotAuxiliary(description, d);
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    return d.batches == 1 ? nullptr : "sums of an operand are played for one batch";
  default:
    return "this epilogue is not played";
  }
}

} // namespace

const char *whyNotSupported(const Description &description, const Layout &a, const Layout &b, const Layout &c, const Layout &d) {
  if (const char *reason = whyNotTypes(description, a, b, c, d)) {
    return reason;
  }
  if (const char *reason = whyNotShapes(description, a, b, c, d)) {
    return reason;
  }
  return whyNotEpilogue(description, d);
}

void multiply(const Product &product) {
  for (int64_t batch = 0; batch < product.d.batches; ++batch) {
    multiplyOne(product, batch);
  }
}

} // namespace ashlar::emulator
