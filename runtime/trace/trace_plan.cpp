// SPDX-License-Identifier: Apache-2.0
//
// The runs of a simulation, in nanoseconds.

#include "runtime/trace/trace_plan.h"

#include "runtime/simulate/simulator.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

constexpr uint64_t kPsPerNs = 1000;

bool isPredicted(const Stages &stages) {
  return std::any_of(stages.begin(), stages.end(), [](const ashlar_rt_variant &stage) {
    return std::any_of(stage.programs, stage.programs + stage.num_programs,
                       [](const ashlar_rt_program &program) { return program.predicted_ns != 0; });
  });
}

} // namespace

Status planSteps(const Stages &stages, const StepRuns &runs, uint64_t steps, uint64_t microBatches, std::vector<StagePlan> &plans) {
  if (!isPredicted(stages)) {
    return Status();
  }
  StepTables tables(stages);
  ASHLAR_RETURN_IF_ERROR(makeStepTables(runs, microBatches, tables));
  SimulationOptions options;
  options.steps = steps;
  Simulation simulation;
  ASHLAR_RETURN_IF_ERROR(simulateSteps(tables, plannedMachine(stages), options, simulation));
  plans.assign(stages.size(), {});
  for (size_t i = simulation.classes.size(); i-- > 0;) { // the last one to write is the first rank's
    StagePlan &plan = plans[simulation.ranks.classes[i].stage];
    plan.clear();
    for (const SimulatedRun &run : simulation.classes[i].runs) {
      plan.push_back({run.begin / kPsPerNs, run.end / kPsPerNs, run.program, run.step, run.microBatch});
    }
  }
  return Status();
}

} // namespace ashlar::rt
