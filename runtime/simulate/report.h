// SPDX-License-Identifier: Apache-2.0
//
// A simulated step as a table and as JSON.

#ifndef ASHLAR_RUNTIME_SIMULATE_REPORT_H
#define ASHLAR_RUNTIME_SIMULATE_REPORT_H

#include "runtime/simulate/goodput.h"
#include "runtime/simulate/simulator.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::rt {

// The loss of a rank, and what it costs.
struct LostRank {
  uint32_t rank;
  uint64_t step;            // in which it stops, from 1 on
  uint64_t checkpointEvery; // steps
  FailureModel model;
  Simulation standstill; // the step in which it stops
};

// The content of a report. All it points to outlives it.
struct SimulationReport {
  const ashlar_rt_image *image;
  const StepTables *tables;
  const Simulation *simulation; // of one step
  std::vector<std::string> notes;
  std::vector<uint32_t> ranks;       // that have a line each; empty: each class has one
  std::optional<uint64_t> plannedPs; // with faults: the step without them
  std::optional<LostRank> lost;
};

// Returns "950 ns", "3.4 us", "1.7 ms".
std::string simulatedTimeText(uint64_t ps);

// Returns the share of the step in which ranks wait for each other, on average over all: bubble of a pipeline, and its messages and slots.
double waitingShare(const Simulation &simulation);

// Returns the report as lines, or as one JSON object. docs/simulate.md describes both.
std::string simulationText(const SimulationReport &report);
std::string simulationJson(const SimulationReport &report);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_REPORT_H
