// SPDX-License-Identifier: Apache-2.0
//
// State that belongs into no checkpoint: sums over the micro-batches of a step, which mean nothing between two steps, and the seed and the
// number of the step, which are the position of the run. The index of a checkpoint has that position whether or not a program reads it, so
// programs that draw numbers or follow a schedule and programs that do not resume from each other.

#ifndef ASHLAR_DIALECTS_NN_SCRATCH_STATE_H
#define ASHLAR_DIALECTS_NN_SCRATCH_STATE_H

#include "dialects/nn/nn.h"

namespace ashlar::nn {

// On an nn.variable that means nothing between two steps.
inline constexpr llvm::StringLiteral kScratchAttr = "nn.scratch";

// Returns true if no checkpoint holds the variable.
inline bool isScratch(VariableOp variable) {
  return variable->hasAttr(kScratchAttr) || variable.getSymName() == kSeedVariable || variable.getSymName() == kStepVariable;
}

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_SCRATCH_STATE_H
