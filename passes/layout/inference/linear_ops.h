// SPDX-License-Identifier: Apache-2.0
//
// Ops that compute the same on the terms of a sum as on the sum.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_LINEAR_OPS_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_LINEAR_OPS_H

#include "dialects/dist/dist.h"

namespace ashlar::layout {

// Returns the sets of operands in which `op` is linear, each set together with the others held fixed; none for an op that is not, or after
// which sums are never cheaper (DelaysSums), such as a broadcast, or a product: a product of terms is as large as the product of the sums.
//   add, sub: {{0, 1}}    mul: {{0}, {1}}    div of floats, neg, reshape, transpose, slice, reduce sum, cast to a wider float: {{0}}
//   add, sub: {{0, 1}}    mul: {{0}, {1}}    div of floats, neg, reshape, transpose, slice, reduce sum, cast to a wider float: {{0}}
llvm::SmallVector<llvm::SmallVector<unsigned, 2>> linearOperands(mlir::Operation *op);

// Returns the axes over which `op` computes on terms: all operands of one of its linear sets are partial sums over them, the others are
// not partial. None for an op on whole values. A constant of zeros is made as terms over any axes.
dist::AxisList termAxes(mlir::Operation *op);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_LINEAR_OPS_H
