// SPDX-License-Identifier: Apache-2.0
//
// Types and shapes of tensor values.

#ifndef ASHLAR_DIALECTS_SUPPORT_TENSOR_VALUES_H
#define ASHLAR_DIALECTS_SUPPORT_TENSOR_VALUES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace ashlar {

// Returns the type of a value. Assumes that it is a ranked tensor.
inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

// Returns the shape of a value. Assumes that it is a ranked tensor.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_TENSOR_VALUES_H
