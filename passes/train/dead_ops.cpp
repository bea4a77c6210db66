// SPDX-License-Identifier: Apache-2.0
//
// See dead_ops.h.

#include "passes/train/dead_ops.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ashlar::train {

void eraseDeadOps(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front()))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
}

} // namespace ashlar::train
