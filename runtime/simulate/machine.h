// SPDX-License-Identifier: Apache-2.0
//
// The machine of a simulation: where ranks lie, and the costs of their links.

#ifndef ASHLAR_RUNTIME_SIMULATE_MACHINE_H
#define ASHLAR_RUNTIME_SIMULATE_MACHINE_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/stages.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// Rank r is on host r / ranksPerHost. Without links communication takes no time.
struct SimulatedMachine {
  uint64_t ranksPerHost = UINT64_MAX, adaptersPerHost = 1;
  uint64_t handOverPs = 0;                         // of a collective that is only started
  std::vector<ashlar_rt_link> axes;                // one an axis of the mesh
  std::vector<std::vector<ashlar_rt_link>> stages; // [to][from]: of messages between stages

  // Returns the link that groups over axes go by: the worse of theirs in each number.
  ashlar_rt_link groupLink(const std::vector<uint32_t> &axes) const;
};

// Returns the machine for which the stages were compiled.
SimulatedMachine plannedMachine(const Stages &stages);

// Returns the time over a link, in picoseconds. A link without a rate takes none.
uint64_t timeOver(const ashlar_rt_link &link, uint32_t kind, uint64_t messages, uint64_t bytes);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_MACHINE_H
