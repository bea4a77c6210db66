// SPDX-License-Identifier: Apache-2.0
//
// The planned times of the stages of a pipeline: the order of a step simulated on a clock, each program for its predicted time.

#ifndef ASHLAR_RUNTIME_TRACE_TRACE_PLAN_H
#define ASHLAR_RUNTIME_TRACE_TRACE_PLAN_H

#include "runtime/base/stages.h"
#include "runtime/base/status.h"

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

// The runs of one step, by stage.
using StepRuns = std::vector<std::vector<ashlar_rt_run>>;

// Simulates so many steps with the rules of a run: a program begins when the one before it has ended, its inputs have been offered, and the
// messages sent from its slot before have been received; it receives when it begins and offers when it ends. Messages themselves take no
// time. Returns no stages where no program has a predicted time; fails for an order that does not end. `microBatches`: of a step. Example:
// stages 0 and 1, forward of 10 ns each, two micro-batches -> 0: [0, 10) [10, 20), 1: [10, 20) [20, 30).
Status planSteps(const Stages &stages, const StepRuns &runs, uint64_t steps, uint64_t microBatches, std::vector<StagePlan> &plans);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TRACE_TRACE_PLAN_H
