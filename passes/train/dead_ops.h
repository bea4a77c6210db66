// SPDX-License-Identifier: Apache-2.0
//
// Removing ops whose results nobody uses.

#ifndef ASHLAR_PASSES_TRAIN_DEAD_OPS_H
#define ASHLAR_PASSES_TRAIN_DEAD_OPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::train {

// Erases every op of `function` that has neither used results nor effects, in one walk from the end.
void eraseDeadOps(mlir::func::FuncOp function);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_DEAD_OPS_H
