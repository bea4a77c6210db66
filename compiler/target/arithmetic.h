// SPDX-License-Identifier: Apache-2.0
//
// Which liberties the code generator may take with the arithmetic of a kernel, on every target: docs/numbers.md. It may fuse a product with
// a sum, and reorder what the kernel itself marks; nothing is replaced by an approximation.

#ifndef ASHLAR_COMPILER_TARGET_ARITHMETIC_H
#define ASHLAR_COMPILER_TARGET_ARITHMETIC_H

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace ashlar::target {

// Returns whether nothing but a narrow type's rounding of this product or quotient is used. LLVM then computes it in that type, where
// `contract` would take the rounding away again.
inline bool isRounded(mlir::Operation *op) {
  return llvm::isa<mlir::arith::MulFOp, mlir::arith::DivFOp>(op) && llvm::all_of(op->getUsers(), llvm::IsaPred<mlir::arith::TruncFOp>);
}

// Gives a floating-point op its fast-math flags: `contract`, and those of reductions that it has.
inline void setFastMathFlags(mlir::arith::ArithFastMathInterface op) {
  using Flags = mlir::arith::FastMathFlags;
  if (llvm::isa<mlir::arith::ExtFOp, mlir::arith::TruncFOp>(op)) {
    return; // there and back would be contracted to nothing, but it is how a result is rounded to a narrow type
  }
  mlir::arith::FastMathFlagsAttr own = op.getFastMathFlagsAttr();
  Flags reordered = own ? own.getValue() & (Flags::reassoc | Flags::nsz) : Flags::none;
  Flags flags = isRounded(op) ? Flags::none : Flags::contract | reordered;
  op->setAttr(op.getFastMathAttrName(), mlir::arith::FastMathFlagsAttr::get(op->getContext(), flags));
}

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_ARITHMETIC_H
