// SPDX-License-Identifier: Apache-2.0
//
// The planned times of the stages of a pipeline: a simulation of the steps of the trace (runtime/simulate).

#ifndef ASHLAR_RUNTIME_TRACE_TRACE_PLAN_H
#define ASHLAR_RUNTIME_TRACE_TRACE_PLAN_H

#include "runtime/base/stages.h"
#include "runtime/base/status.h"
#include "runtime/simulate/step_tables.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// One program on the clock, which begins at 0. Nanoseconds.
struct PlannedRun {
  uint64_t begin, end;
  uint32_t program; // index into the variant's programs
  uint32_t step;    // from 0 on
  uint32_t microBatch;
};

// The runs of one stage, in its order.
using StagePlan = std::vector<PlannedRun>;

// Simulates so many steps on the machine of the plan (simulateSteps), and returns the runs of the first rank of each stage. Returns no
// stages where no program has a predicted time; fails for an order that does not end. `microBatches`: of a step.
Status planSteps(const Stages &stages, const StepRuns &runs, uint64_t steps, uint64_t microBatches, std::vector<StagePlan> &plans);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TRACE_TRACE_PLAN_H
