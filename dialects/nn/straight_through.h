// SPDX-License-Identifier: Apache-2.0
//
// Marks an nn.round with the gradient of the identity instead of 0 (a straight-through estimator). Set by the creator of the op.

#ifndef ASHLAR_DIALECTS_NN_STRAIGHT_THROUGH_H
#define ASHLAR_DIALECTS_NN_STRAIGHT_THROUGH_H

#include "llvm/ADT/StringRef.h"

namespace ashlar::nn {

inline constexpr llvm::StringLiteral kStraightThroughAttr = "nn.straight_through";

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_STRAIGHT_THROUGH_H
