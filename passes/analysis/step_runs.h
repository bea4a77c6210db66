// SPDX-License-Identifier: Apache-2.0
//
// The programs of a step, and what they send.

#ifndef ASHLAR_PASSES_ANALYSIS_STEP_RUNS_H
#define ASHLAR_PASSES_ANALYSIS_STEP_RUNS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace ashlar::analysis {

// Returns how often a step runs the programs of a module, or of a stage's module, that it runs: by its order (dist.order); without one
// its train_step, or where nothing is trained its run or decode, once.
llvm::StringMap<int64_t> runsOfStep(mlir::ModuleOp module);

// What a run of a program spends on collectives: how many, the bytes that a device sends, the picoseconds that they take.
struct CollectiveSum {
  int64_t count = 0, bytes = 0, timePs = 0;
};

// Returns the sum over the collectives of a program, each as often as a run of the program runs it. Bytes and time saturate.
CollectiveSum sumCollectives(mlir::func::FuncOp program);

// Adds `runs` times `each` to a sum, which saturates: a slow device may take longer than a number holds.
void addRuns(int64_t &sum, __int128 runs, int64_t each);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_STEP_RUNS_H
