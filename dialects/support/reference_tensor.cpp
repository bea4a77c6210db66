// SPDX-License-Identifier: Apache-2.0
//
// Elements of reference tensors: rounding, reading attributes, printing.

#include "dialects/support/reference_tensor.h"

#include "dialects/support/element_type.h"
#include "dialects/support/integer_type.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace ashlar::reference {

namespace {

// Reads little-endian element `i` of `width` bytes.
uint64_t readBits(ArrayRef<char> data, int64_t i, int64_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, data.data() + i * width, width);
  return bits;
}

// Reads `values.size()` little-endian elements, or one that all are.
void readFloats(FloatType type, ArrayRef<char> data, std::vector<double> &values) {
  const int64_t width = elementBytes(type), stored = static_cast<int64_t>(data.size()) / width;
  auto read = [&](auto element) {
    for (int64_t i = 0, count = std::min<int64_t>(stored, values.size()); i < count; ++i) {
      std::memcpy(&element, data.data() + i * sizeof(element), sizeof(element));
      values[i] = element;
    }
  };
  if (type.isF32()) { // without a test of the type for each element
    read(0.0F);
  } else if (type.isF64()) {
    read(0.0);
  } else {
    for (int64_t i = 0, count = std::min<int64_t>(stored, values.size()); i < count; ++i) {
      values[i] = floatOfBits(type, readBits(data, i, width));
    }
  }
  for (size_t i = stored; i < values.size(); ++i) {
    values[i] = values[0];
  }
}

constexpr int kDroppedBits = 16; // of an f32, whose others are a bf16

// Rounds a number, not NaN, to the nearest bf16, of two to the even one.
float roundToBf16(float value) {
  const auto bits = llvm::bit_cast<uint32_t>(value);
  const uint32_t half = (uint32_t{1} << (kDroppedBits - 1)) - 1 + ((bits >> kDroppedBits) & 1);
  return llvm::bit_cast<float>((bits + half) >> kDroppedBits << kDroppedBits);
}

APFloat convert(FloatType type, double value) {
  APFloat converted(value);
  bool losesInfo = false;
  converted.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return converted;
}

void printElement(llvm::raw_ostream &os, const Tensor &tensor, int64_t i) {
  if (tensor.isFloat()) {
    os << llvm::format("%.6g", tensor.getFloat(i));
  } else if (tensor.isWord()) {
    os << static_cast<uint64_t>(tensor.getInt(i));
  } else {
    os << tensor.getInt(i);
  }
}

// Prints the elements below dim `dim`, whose first one lies at `begin` and which are `count` in all.
void printNested(llvm::raw_ostream &os, const Tensor &tensor, int64_t dim, int64_t begin, int64_t count) {
  if (dim == tensor.getType().getRank()) {
    printElement(os, tensor, begin);
    return;
  }
  int64_t size = tensor.getShape()[dim];
  os << '[';
  for (int64_t i = 0; i < size; ++i) {
    os << (i == 0 ? "" : ", ");
    printNested(os, tensor, dim + 1, begin + i * (count / size), count / size);
  }
  os << ']';
}

} // namespace

double roundTo(Type floatType, double value) {
  if (floatType.isF64()) {
    return value;
  }
  if (floatType.isF32()) {
    return static_cast<float>(value);
  }
  if (const auto single = static_cast<float>(value); floatType.isBF16() && single == value) {
    return roundToBf16(single); // masks have millions of elements
  }
  return convert(cast<FloatType>(floatType), value).convertToDouble();
}

double floatOfBits(FloatType type, uint64_t bits) {
  if (type.isF64()) {
    return llvm::bit_cast<double>(bits);
  }
  if (type.isF32()) {
    return llvm::bit_cast<float>(static_cast<uint32_t>(bits));
  }
  if (type.isBF16()) {
    return llvm::bit_cast<float>(static_cast<uint32_t>(bits << kDroppedBits));
  }
  return APFloat(type.getFloatSemantics(), APInt(type.getWidth(), bits)).convertToDouble();
}

uint64_t bitsOfFloat(FloatType type, double value) {
  return convert(type, value).bitcastToAPInt().getZExtValue();
}

Tensor::Tensor(RankedTensorType type) : type(type), shape(type.getShape()) {
  const Type element = type.getElementType();
  const unsigned width = element.getIntOrFloatBitWidth();
  if (isa<FloatType>(element)) {
    floatBits = width;
    floats.assign(type.getNumElements(), 0.0);
  } else {
    integerBits = width;
    wrapsUnsigned = isUnsigned(element);
    ints.assign(type.getNumElements(), 0);
  }
}

double Tensor::roundToNarrow(double value) const {
  return roundTo(type.getElementType(), value);
}

void Tensor::copyElement(int64_t i, const Tensor &from, int64_t j) {
  if (isFloat()) {
    floats[i] = from.floats[j];
  } else {
    ints[i] = from.ints[j];
  }
}

int64_t Tensor::linearize(ArrayRef<int64_t> index) const {
  int64_t position = 0;
  for (auto [i, size] : llvm::zip_equal(index, getShape())) {
    position = position * size + i;
  }
  return position;
}

FailureOr<Tensor> Tensor::fromAttribute(ElementsAttr attribute) {
  auto type = dyn_cast<RankedTensorType>(attribute.getType());
  if (!type) {
    return failure();
  }
  Tensor tensor(type);
  if (auto dense = dyn_cast<DenseElementsAttr>(attribute)) {
    if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
      readFloats(floatType, dense.getRawData(), tensor.floats);
    } else {
      for (auto [i, value] : llvm::enumerate(dense.getValues<APInt>())) {
        tensor.setInt(i, value.getSExtValue());
      }
    }
    return tensor;
  }
  auto resource = dyn_cast<DenseResourceElementsAttr>(attribute);
  AsmResourceBlob *blob = resource ? resource.getRawHandle().getBlob() : nullptr;
  if (!blob || static_cast<int64_t>(blob->getData().size()) != byteSize(type)) {
    return failure();
  }
  if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
    readFloats(floatType, blob->getData(), tensor.floats);
    return tensor;
  }
  const int64_t width = elementBytes(type.getElementType());
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    tensor.setInt(i, static_cast<int64_t>(readBits(blob->getData(), i, width)));
  }
  return tensor;
}

DenseElementsAttr Tensor::toAttribute() const {
  if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
    SmallVector<APFloat> values;
    for (double value : floats) {
      values.push_back(convert(floatType, value));
    }
    return DenseElementsAttr::get(type, values);
  }
  unsigned width = type.getElementType().getIntOrFloatBitWidth();
  SmallVector<APInt> values;
  for (int64_t value : ints) {
    values.emplace_back(width, static_cast<uint64_t>(value), /*isSigned=*/true, /*implicitTrunc=*/true);
  }
  return DenseElementsAttr::get(type, values);
}

void Tensor::print(llvm::raw_ostream &os) const {
  os << type << ' ';
  printNested(os, *this, /*dim=*/0, /*begin=*/0, getNumElements());
}

void spoil(Tensor &tensor) {
  constexpr int64_t kOdd = 1000003;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    if (tensor.isFloat()) {
      tensor.setFloat(i, std::numeric_limits<double>::quiet_NaN());
    } else {
      tensor.setInt(i, kOdd);
    }
  }
}

void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>, int64_t)> body) {
  Index index(shape.size(), 0);
  int64_t count = llvm::product_of(shape);
  for (int64_t position = 0; position < count; ++position) {
    body(index, position);
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0 && ++index[d] == shape[d]; --d) {
      index[d] = 0;
    }
  }
}

double maxDifference(const Tensor &x, const Tensor &y) {
  if (x.getType() != y.getType()) {
    return std::numeric_limits<double>::infinity();
  }
  double largest = 0;
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    double a = x.getNumber(i), b = y.getNumber(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      continue;
    }
    double difference = std::abs(a - b) / std::max(1.0, std::abs(a));
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(largest, difference);
  }
  return largest;
}

} // namespace ashlar::reference
