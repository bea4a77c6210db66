// SPDX-License-Identifier: Apache-2.0
//
// Scalars of a step that the runtime logs (dialects/nn/scratch_state.h).

#ifndef ASHLAR_PASSES_TRAIN_UPDATE_OBSERVE_H
#define ASHLAR_PASSES_TRAIN_UPDATE_OBSERVE_H

#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::train {

// Writes a scalar of the step to the variable `name`, which is declared here and belongs into no checkpoint, at the end of the step.
void observe(mlir::func::FuncOp function, llvm::StringRef name, mlir::Value scalar);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_UPDATE_OBSERVE_H
