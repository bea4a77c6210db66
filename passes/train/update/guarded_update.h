// SPDX-License-Identifier: Apache-2.0
//
// Steps whose update is left out because a number is not finite: one mechanism for the loss scale and for on_nonfinite.

#ifndef ASHLAR_PASSES_TRAIN_UPDATE_GUARDED_UPDATE_H
#define ASHLAR_PASSES_TRAIN_UPDATE_GUARDED_UPDATE_H

#include "passes/train/update/update_phase.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ashlar::train {

// Returns whether an element of a float tensor is finite, elementwise: a tensor of i1 of the same shape.
mlir::Value isFinite(mlir::ImplicitLocOpBuilder &builder, mlir::Value value);

// Returns whether all elements of all gradients are finite, a scalar of i1. Assumes at least one gradient.
mlir::Value areFinite(mlir::ImplicitLocOpBuilder &builder, llvm::ArrayRef<nn::GradientOp> gradients);

// Returns `onTrue` where the scalar `condition` holds, else `onFalse`.
mlir::Value selectAll(mlir::ImplicitLocOpBuilder &builder, mlir::Value condition, mlir::Value onTrue, mlir::Value onFalse);

// Makes each variable that the update writes by a gradient, and the count of updates, keep its value in a step in which `isGood` does not
// hold, except scratch state, such as the norm that is logged. @ashlar.skipped_steps, a new variable, counts these steps since the start
// of the run. Assumes that `isGood` stands before the update.
void guardUpdate(mlir::func::FuncOp function, const UpdatePhase &update, mlir::Value isGood);

// Adds 1 to the i64 variable `name`, which is declared here and belongs into no checkpoint, in each step in which `isGood` does not hold.
void countBadSteps(mlir::func::FuncOp function, llvm::StringRef name, mlir::Value isGood);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_UPDATE_GUARDED_UPDATE_H
