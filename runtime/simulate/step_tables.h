// SPDX-License-Identifier: Apache-2.0
//
// The tables of a step as a simulation takes them: programs as times, collectives, waits and loops; channels between stages; runs.

#ifndef ASHLAR_RUNTIME_SIMULATE_STEP_TABLES_H
#define ASHLAR_RUNTIME_SIMULATE_STEP_TABLES_H

#include "runtime/base/stages.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The runs of one step, by stage.
using StepRuns = std::vector<std::vector<ashlar_rt_run>>;

// Instructions [begin, end) of a program. Computation in a row is one item.
struct TimedItem {
  enum Kind : uint8_t { kCompute, kCollective, kWait, kRepeat } kind;
  uint32_t begin, end;
  uint64_t ps = 0;      // compute: alone
  uint32_t owner = 0;   // compute: 0, or the one device + 1 that runs it
  uint32_t token = 0;   // wait: awaited; collective: not 0 where it is only started
  uint32_t axisSet = 0; // collective: index into StepTables::axisSets
  uint32_t items = 0;   // repeat: that many items behind it run `count` times
  uint64_t count = 0;
};

// The end of a channel that a program has.
struct ChannelUse {
  uint32_t channel; // index into StepTables::channels
  uint32_t index;   // of the transfer in the program
};

// Between the devices of equal coordinates of two stages.
struct StageChannel {
  uint32_t from, to; // stages
  uint64_t bytes;
};

struct TimedProgram {
  std::vector<TimedItem> items;
  std::vector<ChannelUse> receives, sends;
};

// Tables of all stages. The image outlives them.
struct StepTables {
  explicit StepTables(const Stages &stages) : stages(stages) {}

  Stages stages;
  StepRuns runs;                                   // of a step
  uint64_t microBatches = 1;                       // of a step
  std::vector<std::vector<TimedProgram>> programs; // by stage
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
