// SPDX-License-Identifier: Apache-2.0
//
// The programs of a step.

#ifndef ASHLAR_PASSES_ANALYSIS_STEP_RUNS_H
#define ASHLAR_PASSES_ANALYSIS_STEP_RUNS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace ashlar::analysis {

// Returns how often a step runs the programs of a module, or of a stage's module, that it runs: by its order (dist.order); without one
// its train_step, or where nothing is trained its run or decode, once.
llvm::StringMap<int64_t> runsOfStep(mlir::ModuleOp module);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_STEP_RUNS_H
