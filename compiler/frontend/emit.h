// SPDX-License-Identifier: Apache-2.0
//
// The nn ops that several handlers need: reshape, transpose, explicit broadcasting, constants. Each returns its operand where there is
// nothing to do.

#ifndef ASHLAR_COMPILER_FRONTEND_EMIT_H
#define ASHLAR_COMPILER_FRONTEND_EMIT_H

#include "compiler/frontend/node.h"

#include "dialects/support/tensor_values.h"

namespace ashlar::frontend {

mlir::Value reshape(const Node &node, mlir::Value value, llvm::ArrayRef<int64_t> shape);

// Dim i of the result is dim permutation[i] of the value.
mlir::Value transpose(const Node &node, mlir::Value value, llvm::ArrayRef<int64_t> permutation);

// Repeats a value to `shape` by numpy's rule, which must allow it: dims of size 1 that grow are dropped by a reshape, then nn.broadcast
// adds them back in size.  [4, 1] to [2, 4, 3]: reshape to [4], broadcast dims = [1].
mlir::Value broadcastTo(const Node &node, mlir::Value value, llvm::ArrayRef<int64_t> shape);

// A constant with every element `value`.
mlir::Value splatConstant(const Node &node, mlir::RankedTensorType type, double value);

// Converts the element type.
mlir::Value cast(const Node &node, mlir::Value value, mlir::Type element);

// Sums, say, along `dims` (sorted).
mlir::Value reduce(const Node &node, Reduction kind, mlir::Value value, llvm::ArrayRef<int64_t> dims);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_EMIT_H
