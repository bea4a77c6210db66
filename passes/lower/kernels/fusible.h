// SPDX-License-Identifier: Apache-2.0
//
// Which ops a generated kernel can hold. Ordering and fusion must agree on it.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_FUSIBLE_H
#define ASHLAR_PASSES_LOWER_KERNELS_FUSIBLE_H

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "dialects/support/aliases.h"

namespace ashlar::lower {

// Returns whether the op only selects (or generates) elements by place: copied into each kernel that reads it, never a loop of its own.
inline bool isView(mlir::Operation *op) {
  if (auto constant = llvm::dyn_cast<nn::ConstantOp>(op)) {
    return constant.getValue().isSplat();
  }
  return llvm::isa<nn::IndexOp>(op) || (op->hasTrait<MovesElements>() && !aliasesOperands(op));
}

// Returns whether the op computes one element of its result from elements of its operands at the same place.
inline bool isElementwise(mlir::Operation *op) {
  return llvm::isa<ScalarOpInterface>(op);
}

// Returns whether a generated kernel can hold the op.
inline bool isFusible(mlir::Operation *op) {
  return isView(op) || isElementwise(op) || llvm::isa<nn::ReduceOp>(op);
}

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_FUSIBLE_H
