// SPDX-License-Identifier: Apache-2.0
//
// The update of a training step, for passes that change how it uses the gradients, whatever the optimizer is.

#ifndef ASHLAR_PASSES_TRAIN_UPDATE_UPDATE_PHASE_H
#define ASHLAR_PASSES_TRAIN_UPDATE_UPDATE_PHASE_H

#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace ashlar::train {

// The gradients of a training step and the ops of its update, in program order. Ops that are built afterwards are not among them.
class UpdatePhase {
public:
  explicit UpdatePhase(mlir::func::FuncOp function);

  llvm::ArrayRef<nn::GradientOp> gradients() const { return gradientOps; }
  llvm::ArrayRef<mlir::Operation *> ops() const { return updates; }

  // Replaces a gradient by `value` in the update.
  void replace(nn::GradientOp gradient, mlir::Value value) const;

  // Moves an op of the update behind all that the step computes so far.
  void moveToEnd(mlir::Operation *op) const;

private:
  mlir::Operation *end;
  llvm::SmallVector<nn::GradientOp> gradientOps;
  llvm::SmallVector<mlir::Operation *> updates;
  llvm::DenseSet<mlir::Operation *> isUpdate;
};

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_UPDATE_UPDATE_PHASE_H
