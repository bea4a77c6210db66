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

// Rank r is on host r / ranksPerHost, host h in pod h / hostsPerPod. Without links communication takes no time.
struct SimulatedMachine {
  uint64_t ranksPerHost = UINT64_MAX, adaptersPerHost = 1;
  bool hasRails = false;                                // each adapter has ranks of its own, ranksPerHost / adaptersPerHost in turn
  uint64_t hostsPerPod = 0, uplinksPerPod = 1;          // 0: all hosts are one pod
  uint64_t adapterBytesPerUs = 1, uplinkBytesPerUs = 1; // of a message over one
  uint64_t handOverPs = 0;                              // of a collective that is only started
  std::vector<ashlar_rt_link> axes;                     // one an axis of the mesh
  std::vector<std::vector<ashlar_rt_link>> stages;      // [to][from]: of messages between stages

  // The pool of ranks that share adapters with a rank, a host or a rail of it; and how many adapters they share.
  uint64_t poolOf(uint64_t rank) const { return hasRails ? rank / (ranksPerHost / adaptersPerHost) : hostOf(rank); }
  uint64_t adaptersPerPool() const { return hasRails ? 1 : adaptersPerHost; }

  // The host and the pod of a rank.
  uint64_t hostOf(uint64_t rank) const { return rank / ranksPerHost; }
  uint64_t podOf(uint64_t rank) const { return hostsPerPod == 0 ? 0 : hostOf(rank) / hostsPerPod; }

  // Returns the link that groups over axes go by: the worse of theirs in each number.
  ashlar_rt_link groupLink(const std::vector<uint32_t> &axes) const;
};

// Returns the machine for which the stages were compiled.
SimulatedMachine plannedMachine(const Stages &stages);

// Returns the time over a link, in picoseconds. A link without a rate takes none.
uint64_t timeOver(const ashlar_rt_link &link, uint32_t kind, uint64_t messages, uint64_t bytes);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_MACHINE_H
