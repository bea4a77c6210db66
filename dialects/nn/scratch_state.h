// SPDX-License-Identifier: Apache-2.0
//
// State that belongs into no checkpoint: sums over the micro-batches of a step, which mean nothing between two steps; numbers of a step
// that the runtime logs and no program reads; the seed and the number of the step, which are the position of the run. The index of a
// checkpoint has that position whether or not a program reads it, so programs that draw numbers or follow a schedule and programs that do
// not resume from each other.

#ifndef ASHLAR_DIALECTS_NN_SCRATCH_STATE_H
#define ASHLAR_DIALECTS_NN_SCRATCH_STATE_H

#include "dialects/nn/nn.h"

namespace ashlar::nn {

// On an nn.variable that means nothing between two steps.
inline constexpr llvm::StringLiteral kScratchAttr = "nn.scratch";

// The variable with the learning rate of the step, f64, where a schedule changes it.
inline constexpr llvm::StringLiteral kLearningRateVariable = "ashlar.learning_rate";

// The variable with the norm of all gradients before they were clipped, f32 or f64, where they are.
inline constexpr llvm::StringLiteral kGradientNormVariable = "ashlar.gradient_norm";

// Returns true if no checkpoint holds the variable.
inline bool isScratch(VariableOp variable) {
  return variable->hasAttr(kScratchAttr) || variable.getSymName() == kSeedVariable || variable.getSymName() == kStepVariable;
}

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_SCRATCH_STATE_H
