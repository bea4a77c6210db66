// SPDX-License-Identifier: Apache-2.0
//
// The optimizer of a job in one line, for the plan.

#ifndef ASHLAR_COMPILER_REPORT_OPTIMIZER_TEXT_H
#define ASHLAR_COMPILER_REPORT_OPTIMIZER_TEXT_H

#include "compiler/job/job.pb.h"

#include <string>

namespace ashlar::report {

// Returns "adamw, weight decay 0.01; learning rate 0.001, rising for 100 steps, then by a cosine to 0 at step 1000; gradients clipped to
// norm 1", defaults included. Assumes a checked optimizer.
std::string optimizerText(const job::Optimizer &optimizer);

// "level 2 from 64 KiB on, over all devices that replicate a parameter", defaults included.
std::string optimizerParallelText(const job::OptimizerParallel &split);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_OPTIMIZER_TEXT_H
