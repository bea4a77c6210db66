// SPDX-License-Identifier: Apache-2.0
//
// Sizes of element types.

#include "dialects/support/element_type.h"

namespace ashlar {

int64_t elementBytes(mlir::Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

bool isNarrowFloat(mlir::Type type) {
  return type.isF16() || type.isBF16();
}

mlir::Type computedType(mlir::Type element) {
  if (isNarrowFloat(element)) {
    return mlir::Float32Type::get(element.getContext());
  }
  return element.isUnsignedInteger() ? mlir::IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth()) : element;
}

mlir::Type storedType(mlir::Type element) {
  if (element.isInteger(1)) {
    return mlir::IntegerType::get(element.getContext(), 8);
  }
  return isNarrowFloat(element) ? element : computedType(element);
}

int64_t byteSize(mlir::ShapedType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

int64_t totalByteSize(mlir::TypeRange types) {
  int64_t bytes = 0;
  for (mlir::Type type : types) {
    bytes += byteSize(llvm::cast<mlir::ShapedType>(type));
  }
  return bytes;
}

} // namespace ashlar
