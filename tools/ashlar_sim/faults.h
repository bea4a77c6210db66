// SPDX-License-Identifier: Apache-2.0
//
// --fault: deviations from the plan, by name.

#ifndef ASHLAR_TOOLS_ASHLAR_SIM_FAULTS_H
#define ASHLAR_TOOLS_ASHLAR_SIM_FAULTS_H

#include "runtime/simulate/simulator.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::sim {

// A rank that stops in a step, from 1 on.
struct LostRank {
  uint32_t rank;
  uint64_t step;
};

// Reads "slow-rank=17:1.5", "slow-link=dp:2" (an axis, "stages", "intra_host", "inter_host" or "inter_pod") and "lost-rank=17@120". Each
// fails with one line that names the fault. A rank or link that is given twice has the last factor.
rt::Status readFaults(const std::vector<std::string> &texts, const rt::Stages &stages, const rt::SimulatedMachine &machine, uint32_t ranks,
                      rt::SimulatedFaults &faults, std::optional<LostRank> &lost);

// Reads "all", or ranks and ranges, "0,8-15".
rt::Status readRanks(const std::string &text, uint32_t ranks, std::vector<uint32_t> &found);

} // namespace ashlar::sim

#endif // ASHLAR_TOOLS_ASHLAR_SIM_FAULTS_H
