// SPDX-License-Identifier: Apache-2.0
//
// The modules of stages: made, and read.

#ifndef ASHLAR_PASSES_STAGE_STAGE_MODULES_H
#define ASHLAR_PASSES_STAGE_STAGE_MODULES_H

#include "passes/stage/model_cut.h"

namespace ashlar::stage {

// Replaces the content of `module` by a module for each stage, with its programs, its variables, its order and `slots` slots. Both lists
// are by stage.
void emitStages(mlir::ModuleOp module, const ModelCut &model, const StageOrders &orders, llvm::ArrayRef<int64_t> slots);

// Returns the orders of the stages in a module that was cut, as a file has them (order_file.h).
std::string printOrders(mlir::ModuleOp module);

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_STAGE_MODULES_H
