// SPDX-License-Identifier: Apache-2.0
//
// State that belongs into no checkpoint: sums over the micro-batches of a step, which mean nothing between two steps, and the seed, which
// the run is told.

#ifndef ASHLAR_DIALECTS_NN_SCRATCH_STATE_H
#define ASHLAR_DIALECTS_NN_SCRATCH_STATE_H

#include "llvm/ADT/StringRef.h"

namespace ashlar::nn {

// On an nn.variable that no checkpoint holds.
inline constexpr llvm::StringLiteral kScratchAttr = "nn.scratch";

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_SCRATCH_STATE_H
