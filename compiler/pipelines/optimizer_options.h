// SPDX-License-Identifier: Apache-2.0
//
// The options of the optimizer pass from a job.

#ifndef ASHLAR_COMPILER_PIPELINES_OPTIMIZER_OPTIONS_H
#define ASHLAR_COMPILER_PIPELINES_OPTIMIZER_OPTIONS_H

#include "compiler/job/job.pb.h"
#include "passes/train/passes.h"

namespace ashlar::pipelines {

// Returns the options of ashlar-optimizer for the optimizer of a checked job.
train::OptimizerPassOptions optimizerOptions(const job::Optimizer &optimizer);

} // namespace ashlar::pipelines

#endif // ASHLAR_COMPILER_PIPELINES_OPTIMIZER_OPTIONS_H
