// SPDX-License-Identifier: Apache-2.0
//
// Products as the runtime asks for them: row major operands as transposed column major ones, all epilogues, and what the library refuses.

#include "test/unit/emulator/device_values.h"

#include <cublasLt.h>

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::cublaslt_test {

using namespace ashlar::emulator;

namespace {

struct Handle {
  Handle() {
    enterDevice();
    REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  }
  cublasLtHandle_t handle;
};

// out (m, n) = A (m, k) B (k, n), row major, as D^T = B^T A^T.
struct Call {
  int64_t m, n, k, batch = 1;
  bool transposeA = false, transposeB = false;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  CUdeviceptr bias = 0;
  uint32_t alignment = 256;
  CUdeviceptr auxiliary = 0;
  int64_t auxiliaryLd = 0;

  template <class T> void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, T value) const {
    REQUIRE(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }

  cublasLtMatrixLayout_t layout(cudaDataType type, int64_t rows, int64_t columns) const {
    cublasLtMatrixLayout_t result;
    REQUIRE(cublasLtMatrixLayoutCreate(&result, type, uint64_t(columns), uint64_t(rows), columns) == CUBLAS_STATUS_SUCCESS);
    const auto count = int32_t(batch);
    const int64_t stride = rows * columns;
    cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    return result;
  }

  cublasStatus_t run(const Values &a, const Values &b, const Values &out) const {
    static Handle handle;
    cublasLtMatmulDesc_t description;
    REQUIRE(cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, int32_t(transposeB ? CUBLAS_OP_T : CUBLAS_OP_N));
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, int32_t(transposeA ? CUBLAS_OP_T : CUBLAS_OP_N));
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, auxiliary);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, auxiliaryLd);
    const auto aLayout = transposeA ? layout(a.type, k, m) : layout(a.type, m, k),
               bLayout = transposeB ? layout(b.type, n, k) : layout(b.type, k, n);
    const auto outLayout = layout(out.type, m, n);
    cublasLtMatmulPreference_t preference;
    REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
    for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof alignment);
    }
    cublasLtMatmulHeuristicResult_t result;
    int count;
    const cublasStatus_t found =
        cublasLtMatmulAlgoGetHeuristic(handle.handle, description, bLayout, aLayout, outLayout, outLayout, preference, 1, &result, &count);
    if (found != CUBLAS_STATUS_SUCCESS) {
      return found;
    }
    const float one = 1, zero = 0;
    const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void *>(address); };
    return cublasLtMatmul(handle.handle, description, &one, pointer(b.device), bLayout, pointer(a.device), aLayout, &zero,
                          pointer(out.device), outLayout, pointer(out.device), outLayout, &result.algo, nullptr, 0, nullptr);
  }

  double expected(const Values &a, const Values &b, int64_t z, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) {
      sum += double(a.floats[size_t(z * m * k + (transposeA ? l * m + i : i * k + l))]) *
             double(b.floats[size_t(z * k * n + (transposeB ? j * k + l : l * n + j))]);
    }
    return sum;
  }
};

// One rounding to the type of the result, and the rounding of k sums in f32.
double tolerance(cudaDataType type, int64_t k) {
  return (type == CUDA_R_32F ? 0 : type == CUDA_R_16F ? 0x1p-11 : 0x1p-8) * std::sqrt(double(k)) + double(k) * 0x1p-24;
}

} // namespace

TEST_CASE("cublaslt: products of every type, transposed, in batches", "[cublaslt]") {
  Handle handle;
  for (const auto &[in, out] : {std::pair(CUDA_R_32F, CUDA_R_32F), std::pair(CUDA_R_16BF, CUDA_R_16BF), std::pair(CUDA_R_16F, CUDA_R_16F),
                                std::pair(CUDA_R_16BF, CUDA_R_32F), std::pair(CUDA_R_16F, CUDA_R_32F)}) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      Call call{5, 7, 11, 3};
      call.transposeA = (transposes & 1) != 0;
      call.transposeB = (transposes & 2) != 0;
      const Values a(size_t(3 * 5 * 11), in, 1), b(size_t(3 * 11 * 7), in, 2);
      Values c(size_t(3 * 5 * 7), out);
      REQUIRE(call.run(a, b, c) == CUBLAS_STATUS_SUCCESS);
      c.download();
      for (int64_t i = 0; i < 3 * 5 * 7; ++i) {
        CHECK(std::fabs(double(c.floats[size_t(i)]) - call.expected(a, b, i / 35, i % 35 / 7, i % 7)) <= tolerance(out, 11));
      }
    }
  }
}

TEST_CASE("cublaslt: bias, relu, gelu", "[cublaslt]") {
  Handle handle;
  const Values a(6 * 9, CUDA_R_32F, 1), b(9 * 10, CUDA_R_32F, 2), bias(10, CUDA_R_32F, 3);
  for (const uint32_t epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}) {
    Call call{6, 10, 9};
    call.epilogue = epilogue;
    call.bias = bias.device;
    Values c(60, CUDA_R_32F);
    REQUIRE(call.run(a, b, c) == CUBLAS_STATUS_SUCCESS);
    c.download();
    for (int64_t i = 0; i < 60; ++i) {
      double x =
          call.expected(a, b, 0, i / 10, i % 10) + ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 ? double(bias.floats[size_t(i % 10)]) : 0);
      if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) {
        x = std::max(x, 0.0);
      } else if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) {
        x = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      }
      CHECK(std::fabs(double(c.floats[size_t(i)]) - x) <= 1e-5);
    }
  }
}

TEST_CASE("cublaslt: auxiliary tensors of relu and gelu, and the slopes that read them", "[cublaslt]") {
  Handle handle;
  const double root = std::sqrt(2 / M_PI);
  for (const cudaDataType type : {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F}) {
    for (const bool relu : {true, false}) {
      // m 6, n 16: a row of the auxiliary tensor has 24 numbers, of a mask 128 bits.
      const Values a(6 * 9, type, 1), b(9 * 16, type, 2), bias(16, type, 3), dy(6 * 5, type, 4), w(5 * 16, type, 5);
      Values y(6 * 16, type), dx(6 * 16, type), auxiliary(6 * 64, type);
      Call forward{6, 16, 9};
      forward.epilogue = relu ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
      forward.bias = bias.device;
      forward.auxiliary = auxiliary.device;
      forward.auxiliaryLd = relu ? 128 : 24;
      REQUIRE(forward.run(a, b, y) == CUBLAS_STATUS_SUCCESS);
      Call backward{6, 16, 5};
      backward.epilogue = relu ? CUBLASLT_EPILOGUE_DRELU : CUBLASLT_EPILOGUE_DGELU;
      backward.auxiliary = forward.auxiliary;
      backward.auxiliaryLd = forward.auxiliaryLd;
      REQUIRE(backward.run(dy, w, dx) == CUBLAS_STATUS_SUCCESS);
      y.download();
      dx.download();
      auxiliary.download();
      for (int64_t i = 0; i < 6 * 16; ++i) {
        const double x = forward.expected(a, b, 0, i / 16, i % 16) + double(bias.floats[size_t(i % 16)]);
        const double t = std::tanh(root * (x + 0.044715 * x * x * x));
        const double slope = relu ? (x > 0 ? 1 : 0) : 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 0.134145 * x * x);
        const double allowed = tolerance(type, 9) + 1e-5;
        CHECK(std::fabs(double(y.floats[size_t(i)]) - (relu ? std::max(x, 0.0) : 0.5 * x * (1 + t))) <= allowed);
        CHECK(std::fabs(double(dx.floats[size_t(i)]) - backward.expected(dy, w, 0, i / 16, i % 16) * slope) <= 2 * allowed);
        if (!relu) {
          CHECK(std::fabs(double(auxiliary.floats[size_t(i / 16 * 24 + i % 16)]) - x) <= allowed);
        }
      }
    }
  }
}

TEST_CASE("cublaslt: auxiliary tensors that the library refuses", "[cublaslt]") {
  Handle handle;
  const Values a(2 * 64, CUDA_R_32F, 1), b(2 * 64, CUDA_R_32F, 2);
  Values c(2 * 64, CUDA_R_32F), auxiliary(1024, CUDA_R_32F);
  Call call{8, 8, 8};
  call.auxiliary = auxiliary.device;
  const auto runWith = [&](cublasLtEpilogue_t epilogue, int64_t ld) {
    call.epilogue = epilogue;
    call.auxiliaryLd = ld;
    return call.run(a, b, c);
  };
  CHECK(runWith(CUBLASLT_EPILOGUE_RELU_AUX, 128) == CUBLAS_STATUS_SUCCESS);
  CHECK(runWith(CUBLASLT_EPILOGUE_DRELU, 64) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(runWith(CUBLASLT_EPILOGUE_GELU_AUX, 8) == CUBLAS_STATUS_SUCCESS);
  CHECK(runWith(CUBLASLT_EPILOGUE_DGELU, 12) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(runWith(CUBLASLT_EPILOGUE_DGELU, 0) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(runWith(CUBLASLT_EPILOGUE_DGELU_BGRAD, 8) == CUBLAS_STATUS_NOT_SUPPORTED); // is not played
  call.auxiliary += 8;
  CHECK(runWith(CUBLASLT_EPILOGUE_GELU_AUX, 8) == CUBLAS_STATUS_NOT_SUPPORTED);
  call.auxiliary -= 8;
  call.batch = 2;
  CHECK(runWith(CUBLASLT_EPILOGUE_GELU_AUX, 8) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
}

TEST_CASE("cublaslt: sums of an operand along the contraction", "[cublaslt]") {
  Handle handle;
  // The gradients of a weight: dy^T x with the rows of dy summed, and x^T dy the same.
  const Values dy(9 * 5, CUDA_R_16BF, 1), x(9 * 7, CUDA_R_16BF, 2);
  Values dw(5 * 7, CUDA_R_32F), sums(5, CUDA_R_32F);
  for (const bool first : {true, false}) {
    Call call{first ? 5 : 7, first ? 7 : 5, 9};
    call.transposeA = true;
    // Column major, our second operand is the library's first.
    call.epilogue = first ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    call.bias = sums.device;
    REQUIRE((first ? call.run(dy, x, dw) : call.run(x, dy, dw)) == CUBLAS_STATUS_SUCCESS);
    dw.download();
    sums.download();
    for (int64_t j = 0; j < 5; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < 9; ++i) {
        sum += double(dy.floats[size_t(i * 5 + j)]);
      }
      CHECK(std::fabs(double(sums.floats[size_t(j)]) - sum) <= 1e-5);
      for (int64_t i = 0; i < 7; ++i) {
        const double expected = first ? call.expected(dy, x, 0, j, i) : call.expected(x, dy, 0, i, j);
        CHECK(std::fabs(double(dw.floats[size_t(first ? j * 7 + i : i * 5 + j)]) - expected) <= 1e-5);
      }
    }
  }
}

TEST_CASE("cublaslt: what the library refuses", "[cublaslt]") {
  Handle handle;
  const Values a(64, CUDA_R_32F, 1), b(64, CUDA_R_32F, 2), half(64, CUDA_R_16BF, 3);
  Values c(64, CUDA_R_32F);
  Call call{8, 8, 8};
  CHECK(call.run(a, half, c) == CUBLAS_STATUS_NOT_SUPPORTED);
  call.compute = CUBLAS_COMPUTE_64F;
  CHECK(call.run(a, b, c) == CUBLAS_STATUS_NOT_SUPPORTED);
  call.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  CHECK(call.run(half, half, c) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(call.run(a, b, c) == CUBLAS_STATUS_SUCCESS);
  c.download();
  CHECK(c.floats[0] != float(call.expected(a, b, 0, 0, 0)));
  CHECK(std::fabs(double(c.floats[0]) - call.expected(a, b, 0, 0, 0)) < 8 * 0x1p-10);
  call.compute = CUBLAS_COMPUTE_32F;
  call.epilogue = CUBLASLT_EPILOGUE_BGRADA;
  call.batch = 2;
  CHECK(call.run(a, b, c) == CUBLAS_STATUS_NOT_SUPPORTED);
  call.batch = 1;
  call.epilogue = CUBLASLT_EPILOGUE_DGELU;
  CHECK(call.run(a, b, c) == CUBLAS_STATUS_NOT_SUPPORTED);
  // Operands must be aligned as promised.
  call = {4, 8, 8};
  Values shifted = a;
  shifted.device += 64;
  CHECK(call.run(shifted, b, c) == CUBLAS_STATUS_INVALID_VALUE);
  call.alignment = 64;
  CHECK(call.run(shifted, b, c) == CUBLAS_STATUS_SUCCESS);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
}

} // namespace ashlar::test::cublaslt_test
