// SPDX-License-Identifier: Apache-2.0
//
// Which liberties the code generator may take with the arithmetic of a kernel, on every target: docs/numbers.md. It may fuse a product with
// a term of a sum that the kernel itself marks, and reorder that; nothing is replaced by an approximation.

#ifndef ASHLAR_COMPILER_TARGET_ARITHMETIC_H
#define ASHLAR_COMPILER_TARGET_ARITHMETIC_H

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace ashlar::target {

// Returns whether nothing but a narrow type's rounding of this product or quotient is used. LLVM then computes it in that type, where
// `contract` would take the rounding away again.
inline bool isRounded(mlir::Operation *op) {
  return llvm::isa<mlir::arith::MulFOp, mlir::arith::DivFOp>(op) && llvm::all_of(op->getUsers(), llvm::IsaPred<mlir::arith::TruncFOp>);
}

// Gives a floating-point op its fast-math flags: the flags that it has, of reductions, and `contract`, except to element-wise sums. LLVM
// fuses a product with a sum only where the product has no other use, so two kernels that compute one value, each for itself, would round
// it differently, and the gradient of a maximum would not find the maximum again.
inline void setFastMathFlags(mlir::arith::ArithFastMathInterface op) {
  using Flags = mlir::arith::FastMathFlags;
  if (llvm::isa<mlir::arith::ExtFOp, mlir::arith::TruncFOp>(op)) {
    return; // there and back would be contracted to nothing, but it is how a result is rounded to a narrow type
  }
  mlir::arith::FastMathFlagsAttr own = op.getFastMathFlagsAttr();
  Flags reordered = own ? own.getValue() & (Flags::reassoc | Flags::nsz) : Flags::none;
  bool isElementwiseSum = llvm::isa<mlir::arith::AddFOp, mlir::arith::SubFOp>(op) && reordered == Flags::none;
  Flags flags = isRounded(op) || isElementwiseSum ? Flags::none : Flags::contract | reordered;
  op->setAttr(op.getFastMathAttrName(), mlir::arith::FastMathFlagsAttr::get(op->getContext(), flags));
}

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_ARITHMETIC_H
