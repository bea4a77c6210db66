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
