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

// Two values of one element type, broadcast to one shape.
std::pair<mlir::Value, mlir::Value> broadcastPair(const Node &node, mlir::Value lhs, mlir::Value rhs);

// The value of every element of an input; nothing when they differ or are not known at import.
std::optional<double> splatInput(const Node &node, size_t index);

// A constant with every element `value`.
mlir::Value splatConstant(const Node &node, mlir::RankedTensorType type, double value);

// Compares element by element; the values have one type, and a number stands for one of that type.
mlir::Value compare(const Node &node, nn::Predicate predicate, mlir::Value lhs, mlir::Value rhs);
mlir::Value compare(const Node &node, nn::Predicate predicate, mlir::Value lhs, double rhs);

// `onTrue` where the condition holds, `onFalse` elsewhere.
mlir::Value select(const Node &node, mlir::Value condition, mlir::Value onTrue, mlir::Value onFalse);

// Converts the element type.
mlir::Value convertTo(const Node &node, mlir::Value value, mlir::Type element);

// Converts f16 and bf16 to f32, for formulas of several ops.
mlir::Value widen(const Node &node, mlir::Value value);

// Returns a value's elements as numbers, which not all ops take other things than: bools as 0 and 1.
mlir::Value asNumbers(const Node &node, mlir::Value value);

// Indices of a dim of `size`, the negative ones counted from its end, as ones counted from the front. `count`: the size of a counted dim,
// an i64 scalar; null for another one.
mlir::Value countFromFront(const Node &node, mlir::Value indices, int64_t size, mlir::Value count = {});

// Reduces, for example sums, along `dims` (sorted).
mlir::Value reduce(const Node &node, Reduction kind, mlir::Value value, llvm::ArrayRef<int64_t> dims);

// Multiplies along one dim, which becomes 1: its first part times the rest, behind the largest power of two, as often as there are twos. So
// the gradient of an element is the product of the others, whether there are zeros or not.
mlir::Value multiplyAlong(const Node &node, mlir::Value value, int64_t dim);

// Repeats a reduced value along `dims` (sorted), over which it was reduced: `shape` is the result's.
mlir::Value repeatAlong(const Node &node, mlir::Value value, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> shape);

// Elements start to limit - 1 of one dim.
mlir::Value sliceAlong(const Node &node, mlir::Value value, int64_t dim, int64_t start, int64_t limit);

// The elements of a dim from the last one to the first. Splits of the other dims stay; kernels read the elements where they are.
mlir::Value reverseAlong(const Node &node, mlir::Value value, int64_t dim);

// The first elements of each dim, as many as in `shape`.
mlir::Value leadingPart(const Node &node, mlir::Value value, llvm::ArrayRef<int64_t> shape);

// Puts `fill` in place of the elements along `dims` that are not there (counted_dims.h); all are there afterwards. So an op that mixes
// elements may read the result, if `fill` makes no difference to it.
mlir::Value fillMissing(const Node &node, mlir::Value value, llvm::ArrayRef<int64_t> dims, mlir::Attribute fill);

// The attribute of a zero.
mlir::Attribute zeroOf(mlir::Type element);

// Which elements along a dim are there: bools of the value's shape.
mlir::Value isThere(const Node &node, mlir::Value value, int64_t dim, mlir::Value count);

// Returns the number of elements along `dims`, an i64 scalar: the fixed sizes times the counts. Null where all are fixed.
mlir::Value countElements(const Node &node, mlir::Value value, llvm::ArrayRef<int64_t> dims);

// Defines the result of an op of the softmax family, which `alongLast` computes along the last dim: from opset 13 on along one axis
// (default the last); before, over all dims from `axis` (default 1) on taken together.
void importRows(Node &node, llvm::function_ref<mlir::Value(const Node &node, mlir::Value rows)> alongLast);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_EMIT_H
