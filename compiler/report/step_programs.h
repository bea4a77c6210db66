// SPDX-License-Identifier: Apache-2.0
//
// The programs that a step runs, of one module or of the stages of a pipeline.

#ifndef ASHLAR_COMPILER_REPORT_STEP_PROGRAMS_H
#define ASHLAR_COMPILER_REPORT_STEP_PROGRAMS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::report {

// Returns the modules that hold programs: the stages' modules, or the only one.
llvm::SmallVector<mlir::ModuleOp> programsOf(mlir::ModuleOp module);

// Returns the stage that a module is; nothing without a pipeline.
std::optional<int64_t> stageOf(mlir::ModuleOp module);

// Returns the training step, or the model; of a stage all programs of a step, or only the ones that it runs for more than one micro-batch.
llvm::SmallVector<mlir::func::FuncOp> mainsOf(mlir::ModuleOp module, bool ofMicroBatches = false);

// Returns the module paths of the ops that a stage computes for each micro-batch, each once. Left out are ops that only train a variable,
// whose name they have, and counters.
std::vector<std::string> listOps(mlir::ModuleOp stage, const llvm::StringSet<> &variables);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_STEP_PROGRAMS_H
