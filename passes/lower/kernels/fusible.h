// SPDX-License-Identifier: Apache-2.0
//
// Which ops a generated kernel can hold. Ordering and fusion must agree on it.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_FUSIBLE_H
#define ASHLAR_PASSES_LOWER_KERNELS_FUSIBLE_H

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

namespace ashlar::lower {

// Returns whether the op only says which element is read (or generated) where: copied into each kernel that reads it, never a loop of its
// own.
inline bool isView(mlir::Operation *op) {
  if (auto constant = llvm::dyn_cast<nn::ConstantOp>(op)) {
    return constant.getValue().isSplat();
  }
  return llvm::isa<nn::BroadcastOp, nn::TransposeOp, nn::SliceOp, nn::PadOp, nn::ConcatOp, nn::IndexOp, nn::GatherOp>(op);
}

// Returns whether the op computes one element of its result from elements of its operands at the same place.
inline bool isElementwise(mlir::Operation *op) {
  return op->hasTrait<mlir::OpTrait::Elementwise>() || llvm::isa<nn::RandomOp>(op);
}

// Returns whether the target's library of matrix products has the op as an epilogue.
inline bool isLibraryActivation(mlir::Operation *op, exec::Target target) {
  if (target == exec::Target::Cpu) {
    return llvm::isa<nn::ReluOp, nn::GeluOp, nn::SigmoidOp, nn::TanhOp>(op);
  }
  auto gelu = llvm::dyn_cast<nn::GeluOp>(op);
  return llvm::isa<nn::ReluOp>(op) || (gelu && gelu.getTanhApproximation());
}

// Returns whether the op can follow `last` inside a library product, what else it reads aside: a conversion of the sums to f32, a bias, an
// activation, each at most once and in this order.
inline bool followsInProduct(mlir::Operation *op, mlir::Operation *last, exec::Target target) {
  if (auto cast = llvm::dyn_cast<nn::CastOp>(op)) {
    return target == exec::Target::Cuda && llvm::isa<nn::MatMulOp>(last) && cast.getType().getElementType().isF32();
  }
  return llvm::isa<nn::AddOp>(op) ? llvm::isa<nn::MatMulOp, nn::CastOp>(last)
                                  : isLibraryActivation(op, target) && llvm::isa<nn::MatMulOp, nn::AddOp, nn::CastOp>(last);
}

// Returns the value that `value` repeats along all dims but the last, as a bias is; null when it is no such value.
inline mlir::Value getBias(mlir::Value value) {
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  bool isBias = broadcast && broadcast.getDims() == llvm::ArrayRef<int64_t>{broadcast.getType().getRank() - 1};
  return isBias ? mlir::Value(broadcast.getInput()) : mlir::Value();
}

// Returns whether a generated kernel can hold the op.
inline bool isFusible(mlir::Operation *op) {
  return isView(op) || isElementwise(op) || llvm::isa<nn::ReduceOp>(op);
}

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_FUSIBLE_H
