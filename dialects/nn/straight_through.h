// SPDX-License-Identifier: Apache-2.0
//
// Marks an nn.round whose gradient is that of the identity instead of 0 (a straight-through estimator). Set by who makes the op.

#ifndef ASHLAR_DIALECTS_NN_STRAIGHT_THROUGH_H
#define ASHLAR_DIALECTS_NN_STRAIGHT_THROUGH_H

#include "llvm/ADT/StringRef.h"

namespace ashlar::nn {

inline constexpr llvm::StringLiteral kStraightThroughAttr = "nn.straight_through";

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_STRAIGHT_THROUGH_H
