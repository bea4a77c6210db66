// SPDX-License-Identifier: Apache-2.0
//
// The checks of the optimizer and of its learning rate's schedule.

#ifndef ASHLAR_COMPILER_JOB_CHECK_OPTIMIZER_H
#define ASHLAR_COMPILER_JOB_CHECK_OPTIMIZER_H

#include "compiler/job/check_training.h"

namespace ashlar::job {

// Checks that the optimizer is complete and its schedule without contradictions. Assumes numbers in their ranges.
Fault checkOptimizer(const Optimizer &optimizer);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_CHECK_OPTIMIZER_H
