// SPDX-License-Identifier: Apache-2.0
//
// The sizes of an attention and its scores.

#ifndef ASHLAR_DIALECTS_NN_OPS_ATTENTION_SCORES_H
#define ASHLAR_DIALECTS_NN_OPS_ATTENTION_SCORES_H

#include "mlir/IR/BuiltinTypes.h"

#include <limits>

namespace ashlar::nn {

inline constexpr double kHidden = -std::numeric_limits<double>::infinity(); // the score of a key that a query does not see

inline int64_t rowsOf(mlir::RankedTensorType type) {
  return type.getShape().end()[-2];
}

inline int64_t columnsOf(mlir::RankedTensorType type) {
  return type.getShape().back();
}

// Returns the type of the scores, in which sums over keys are computed.
inline mlir::RankedTensorType scoresTypeOf(mlir::RankedTensorType query, mlir::RankedTensorType key) {
  llvm::SmallVector<int64_t> shape(query.getShape().drop_back());
  shape.push_back(rowsOf(key));
  mlir::Type element = query.getElementType();
  return mlir::RankedTensorType::get(shape, element.isF64() ? element : mlir::Float32Type::get(element.getContext()));
}

template <typename Op> int64_t diagonalOf(Op op) {
  return static_cast<int64_t>(op.getDiagonal()); // which may be negative
}

// Returns the distance key - row from which on a row sees keys.
template <typename Op> int64_t firstDistanceOf(Op op) {
  return op.getWindow() == 0 ? INT64_MIN : diagonalOf(op) - static_cast<int64_t>(op.getWindow()) + 1;
}

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_OPS_ATTENTION_SCORES_H
