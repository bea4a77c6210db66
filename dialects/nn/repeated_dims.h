// SPDX-License-Identifier: Apache-2.0
//
// Which dims nn.broadcast repeats.

#ifndef ASHLAR_DIALECTS_NN_REPEATED_DIMS_H
#define ASHLAR_DIALECTS_NN_REPEATED_DIMS_H

#include "dialects/nn/nn.h"

namespace ashlar::nn {

// Returns the dim of the operand that becomes `dim` of the result; nothing where the result repeats the operand along it.
inline std::optional<unsigned> findDimBeforeBroadcast(BroadcastOp op, int64_t dim) {
  const int64_t *found = llvm::find(op.getDims(), dim);
  return found == op.getDims().end() ? std::nullopt : std::optional(static_cast<unsigned>(found - op.getDims().begin()));
}

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_REPEATED_DIMS_H
