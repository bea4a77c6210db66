// SPDX-License-Identifier: Apache-2.0
//
// A step of a job on a clock: all ranks, their computation, collectives and messages, from the tables of the image alone.

#ifndef ASHLAR_RUNTIME_SIMULATE_SIMULATOR_H
#define ASHLAR_RUNTIME_SIMULATE_SIMULATOR_H

#include "runtime/simulate/machine.h"
#include "runtime/simulate/rank_classes.h"
#include "runtime/simulate/step_tables.h"
#include "runtime/timeline/timed_step.h"

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

// The time of one rank of a class.
struct SimulatedClass : ActorTimes {
  std::string standsStill; // with a lost rank: the thing that it waits for without end; else empty
};

struct Simulation {
  RankClasses ranks;
  std::vector<SimulatedClass> classes; // as in `ranks`
  uint64_t endPs = 0;                  // of the last run of any rank
};

// Simulates steps of all ranks (playSteps). Transfers that share the adapters of a host, or a rank's own links, at one time share their
// rate. Fails where stages wait for each other. Exact: classes of ranks have the times that each of their ranks would have alone.
Status simulateSteps(const StepTables &tables, const SimulatedMachine &machine, const SimulationOptions &options, Simulation &result);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_SIMULATOR_H
