// SPDX-License-Identifier: Apache-2.0
//
// Types, shapes and strides of tensor values.

#ifndef ASHLAR_DIALECTS_SUPPORT_TENSOR_VALUES_H
#define ASHLAR_DIALECTS_SUPPORT_TENSOR_VALUES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cstdint>

namespace ashlar {

// Returns the type of a value. Assumes that it is a ranked tensor.
inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

// Returns the shape of a value. Assumes that it is a ranked tensor.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}

// Returns the size of a dim along which tensors are joined; the largest number, which no tensor has, where the sum is not one.
inline int64_t joinedSize(int64_t size, int64_t more) {
  return static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(size) + static_cast<uint64_t>(more), INT64_MAX));
}

// Returns the strides that number the elements of a shape, the last dim fastest: {2, 3, 4} -> {12, 4, 1}.
inline llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d) {
    strides[d - 2] = strides[d - 1] * shape[d - 1];
  }
  return strides;
}

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_TENSOR_VALUES_H
