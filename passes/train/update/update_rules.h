// SPDX-License-Identifier: Apache-2.0
//
// The update rules of the optimizers, in ops; their formulas are in passes.td.

#ifndef ASHLAR_PASSES_TRAIN_UPDATE_UPDATE_RULES_H
#define ASHLAR_PASSES_TRAIN_UPDATE_UPDATE_RULES_H

#include "passes/train/passes.h"
#include "passes/train/update/step_numbers.h"

namespace ashlar::train {

// An optimizer and its constants.
struct UpdateRule {
  OptimizerKind kind = OptimizerKind::Sgd;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0, beta2 = 0, epsilon = 0;

  // Whether the optimizer keeps moments of the gradient, which are corrected by the number of updates.
  bool hasMoments() const { return kind != OptimizerKind::Sgd && kind != OptimizerKind::Momentum; }

  // Returns the names of the states of a parameter, behind its own: <parameter>.momentum.
  llvm::SmallVector<llvm::StringRef> stateNames() const;
};

// The numbers of a step.
struct StepRates {
  Number learningRate;
  Number meanFactor = 1.0; // 1 / (1 - beta1^t), with moments
  Number rootFactor = 1.0; // 1 / sqrt(1 - beta2^t), with moments
};

// Returns the learning rate and the corrections of update `t`; the first is 1.
StepRates makeStepRates(NumberBuilder &numbers, const UpdateRule &rule, Number learningRate, Number t);

// A parameter and its gradient, in the type that its update is computed in.
struct Parameter {
  nn::VariableOp variable;
  mlir::Value weight, gradient;
  double decay; // weight decay
};

// Builds the update of one parameter: writes its states, and returns its next value. Assumes that the states are declared.
mlir::Value buildUpdate(mlir::ImplicitLocOpBuilder &builder, const UpdateRule &rule, const StepRates &rates, const Parameter &parameter);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_UPDATE_UPDATE_RULES_H
