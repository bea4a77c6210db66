// SPDX-License-Identifier: Apache-2.0
//
// Steps and evaluations of a pipeline, and of the program that it was cut from, from the same global tensors: both must leave the same
// behind.

#ifndef ASHLAR_TEST_FUZZ_PIPELINE_RUNS_H
#define ASHLAR_TEST_FUZZ_PIPELINE_RUNS_H

#include "compiler/reference/equivalence.h"

#include <map>
#include <string>
#include <vector>

namespace ashlar::fuzz {

// The runs: @init or given values, some steps, some evaluations.
struct PipelineCase {
  int64_t microBatches = 1;                                // of a step
  std::vector<std::vector<reference::Tensor>> batches;     // the arguments of @train_step for each micro-batch of each step
  std::vector<std::vector<reference::Tensor>> evaluations; // the arguments of @eval_step
  std::map<std::string, reference::Tensor> variables;      // at the start; the others have the value that the module gives them
  bool runsInit = false;                                   // then
};

// Runs the whole program on one rank: each step is @train_step for its micro-batches, then @update. Returns the results of the last
// micro-batch of each step and each evaluation, and the variables after each step.
mlir::FailureOr<reference::ModuleRun> runWhole(mlir::ModuleOp program, const PipelineCase &what, const reference::Observer &observer = {});

// Runs the stages that it was cut into, each on `ranks` ranks, and returns the same; of the compiler's own variables only the stages' ones.
// Fails with an error when stages lack an output or a variable, or disagree on one.
mlir::FailureOr<reference::ModuleRun> runStages(mlir::ModuleOp program, mlir::ModuleOp cut, int64_t ranks, const PipelineCase &what);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_PIPELINE_RUNS_H
