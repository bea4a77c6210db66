// SPDX-License-Identifier: Apache-2.0
//
// The tables of an image as a simulation takes them: programs as times, collectives, waits and loops; channels between stages; runs.

#ifndef ASHLAR_RUNTIME_SIMULATE_STEP_TABLES_H
#define ASHLAR_RUNTIME_SIMULATE_STEP_TABLES_H

#include "runtime/base/stages.h"
#include "runtime/base/status.h"
#include "runtime/timeline/timed_step.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The runs of one step, by stage.
using StepRuns = std::vector<std::vector<ashlar_rt_run>>;

// Between the devices of equal coordinates of two stages.
struct StageChannel {
  uint32_t from, to; // stages
  uint64_t bytes;
};

// Tables of all stages. Collectives take no time in them: that follows from a machine. The image outlives them.
struct StepTables : TimedStep {
  explicit StepTables(const Stages &stages) : stages(stages) {}

  Stages stages;
  std::vector<StageChannel> channels;
  std::vector<std::vector<uint32_t>> axisSets; // of collectives that send, axes in rising order
};

// Fills the tables for an order. Fails for a repeat that ends behind the one around it.
Status makeStepTables(StepRuns runs, uint64_t microBatches, StepTables &tables);

// Returns the runs of a step as the image has them: of training, or of the program that runs the model. `microBatches`: of a step.
Status readStepRuns(const ashlar_rt_image &image, const Stages &stages, StepRuns &runs, uint64_t &microBatches);

// The description of a collective. Assumes that the instruction is one.
inline const ashlar_rt_collective_desc &collectiveOf(const ashlar_rt_instr &instr) {
  return *static_cast<const ashlar_rt_collective_desc *>(instr.desc);
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_STEP_TABLES_H
