// SPDX-License-Identifier: Apache-2.0
//
// See dead_ops.h.

#include "passes/train/dead_ops.h"

#include "dialects/nn/repeat/repeats.h"

using namespace mlir;

namespace ashlar::train {

void eraseDeadOps(func::FuncOp function) {
  nn::pruneRepeats(function.front());
}

} // namespace ashlar::train
