// SPDX-License-Identifier: Apache-2.0
//
// The program's counts of steps whose loss or gradients are not finite, which the runtime reads. Both are scratch: of this run.

#ifndef ASHLAR_DIALECTS_NN_NONFINITE_STEPS_H
#define ASHLAR_DIALECTS_NN_NONFINITE_STEPS_H

#include "llvm/ADT/StringRef.h"

namespace ashlar::nn {

// The variable that counts the steps whose update was left out.
inline constexpr llvm::StringLiteral kSkippedStepsVariable = "ashlar.skipped_steps";

// The variable that counts the steps whose clipped gradients had a norm that is not finite.
inline constexpr llvm::StringLiteral kBadNormsVariable = "ashlar.bad_norms";

// On the op whose result is the norm of all gradients.
inline constexpr llvm::StringLiteral kGradientNormAttr = "nn.gradient_norm";

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_NONFINITE_STEPS_H
