// SPDX-License-Identifier: Apache-2.0
//
// A step of a job on a clock: all ranks, their computation, collectives and messages, from the tables of the image alone.

#ifndef ASHLAR_RUNTIME_SIMULATE_SIMULATOR_H
#define ASHLAR_RUNTIME_SIMULATE_SIMULATOR_H

#include "runtime/base/recorder.h"
#include "runtime/simulate/machine.h"
#include "runtime/simulate/rank_classes.h"
#include "runtime/simulate/step_tables.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::rt {

// A deviation from the plan.
struct SimulatedFaults {
  std::map<uint32_t, double> slowRanks; // rank -> factor of the time of its computation
  std::vector<double> slowAxes;         // by axis: factor of the time of collectives over it; empty: none
  double slowMessages = 1;              // of messages between stages
  std::optional<uint32_t> lostRank;     // does nothing at all
};

struct SimulationOptions {
  uint64_t steps = 1;       // in a row
  uint64_t batchPs = 0;     // a batch of a micro-batch is there every so often, the first one at once; 0: all are
  bool usesSymmetry = true; // one rank of each class stands for it
  SimulatedFaults faults;
  std::vector<uint32_t> tracedRanks; // whose spans are recorded
};

// One run of a program. Picoseconds on the clock, which begins at 0 for all ranks.
struct SimulatedRun {
  uint64_t begin, end; // from the arrival of its inputs on
  uint32_t program;    // index into the variant's programs
  uint32_t step, microBatch;
};

// The time of a rank in a collective that it stood still for.
struct ExposedTime {
  uint64_t ps = 0;        // of the device
  uint64_t membersPs = 0; // of that, before all members had come
  uint64_t times = 0;     // that the collective ran
};

// The time of one rank of a class. What is left of the steps is idle: it has nothing more to do.
struct SimulatedClass {
  uint64_t computePs = 0;                                       // kernels and library calls
  uint64_t receivePs = 0;                                       // taking messages
  uint64_t messagePs = 0, slotPs = 0, batchPs = 0;              // waiting: for a message, for a slot to be read, for data
  std::map<std::pair<uint32_t, uint32_t>, ExposedTime> exposed; // by {program, instruction}
  uint64_t endPs = 0;                                           // of its last run
  std::vector<SimulatedRun> runs;
  std::vector<Span> spans;      // nanoseconds, of a traced class
  std::string standsStill;      // with a lost rank: the thing that it waits for without end; else empty
  std::vector<uint32_t> awaits; // then: the classes that it waits for

  uint64_t exposedPs() const;
};

struct Simulation {
  RankClasses ranks;
  std::vector<SimulatedClass> classes; // as in `ranks`
  uint64_t endPs = 0;                  // of the last run of any rank
};

// Simulates steps in which all ranks begin at once, with nothing under way. A rank runs its programs in the order of its stage; before a
// run it waits for the slots that it sends from, then takes its messages one after the other. A collective begins when its last member
// comes; one that is only started goes beside the computation, in its order. Transfers that share the adapters of a host, or a rank's own
// links, at one time share their rate. Fails where stages wait for each other. Exact: classes of ranks have the times that each of their
// ranks would have alone. O(events * log(events)) for the ranks that are followed.
//
//   stages 0 and 1, forward of 10 ns each, two micro-batches, free messages -> 0: [0, 10) [10, 20), 1: [10, 20) [20, 30)
Status simulateSteps(const StepTables &tables, const SimulatedMachine &machine, const SimulationOptions &options, Simulation &result);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_SIMULATOR_H
