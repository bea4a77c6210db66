// SPDX-License-Identifier: Apache-2.0
//
// Which arithmetic must keep its rounding to a narrow type, whatever the fast-math flags of its kernel.

#ifndef ASHLAR_COMPILER_TARGET_ROUNDED_H
#define ASHLAR_COMPILER_TARGET_ROUNDED_H

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace ashlar::target {

// Whether nothing but a narrow type's rounding of this product or quotient is used. LLVM then computes it in that type, where `contract`
// and `arcp` would take the rounding away again: fused with a sum, or by a reciprocal of 11 bits that several quotients share.
inline bool isRounded(mlir::Operation *op) {
  return llvm::isa<mlir::arith::MulFOp, mlir::arith::DivFOp>(op) && llvm::all_of(op->getUsers(), llvm::IsaPred<mlir::arith::TruncFOp>);
}

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_ROUNDED_H
