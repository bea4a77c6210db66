// SPDX-License-Identifier: Apache-2.0
//
// Signs and limits of integers.

#include "dialects/support/integer_type.h"

namespace ashlar {

bool isUnsigned(mlir::Type type) {
  return type.isUnsignedInteger() || type.isInteger(1);
}

llvm::APInt lowestInteger(mlir::Type type) {
  unsigned width = type.getIntOrFloatBitWidth();
  return isUnsigned(type) ? llvm::APInt::getMinValue(width) : llvm::APInt::getSignedMinValue(width);
}

llvm::APInt highestInteger(mlir::Type type) {
  unsigned width = type.getIntOrFloatBitWidth();
  return isUnsigned(type) ? llvm::APInt::getMaxValue(width) : llvm::APInt::getSignedMaxValue(width);
}

int64_t integerValue(mlir::Type type, const llvm::APInt &value) {
  return isUnsigned(type) ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue();
}

} // namespace ashlar
