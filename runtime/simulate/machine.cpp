// SPDX-License-Identifier: Apache-2.0
//
// Links of an image -> links of a simulation.

#include "runtime/simulate/machine.h"

#include "runtime/abi/message_time.h"

#include <algorithm>

namespace ashlar::rt {

SimulatedMachine plannedMachine(const Stages &stages) {
  SimulatedMachine machine;
  for (const ashlar_rt_variant &stage : stages) {
    const ashlar_rt_links *links = stage.links;
    if (links == nullptr) {
      continue;
    }
    machine.ranksPerHost = std::max<uint64_t>(links->ranks_per_host, 1);
    machine.adaptersPerHost = std::max<uint64_t>(links->adapters_per_host, 1);
    machine.hasRails = links->rails != 0;
    machine.hostsPerPod = links->hosts_per_pod;
    machine.uplinksPerPod = std::max<uint64_t>(links->uplinks_per_pod, 1);
    machine.adapterBytesPerUs = std::max<uint64_t>(links->adapter_bytes_per_us, 1);
    machine.uplinkBytesPerUs = std::max<uint64_t>(links->uplink_bytes_per_us, 1);
    machine.handOverPs = links->hand_over_ps;
    machine.axes.assign(links->axes, links->axes + stage.num_axes);
    machine.stages.resize(stages.size());
    machine.stages[stage.stage].assign(links->stages, links->stages + stages.size());
  }
  return machine;
}

ashlar_rt_link SimulatedMachine::groupLink(const std::vector<uint32_t> &over) const {
  ashlar_rt_link worst = {};
  if (axes.empty() || over.empty()) {
    return worst;
  }
  worst = axes[over.front()];
  for (uint32_t axis : over) {
    for (uint32_t kind = 0; kind <= ASHLAR_RT_HALO; ++kind) {
      ashlar_rt_message_cost &cost = worst.costs[kind];
      cost.latency_ns = std::max(cost.latency_ns, axes[axis].costs[kind].latency_ns);
      cost.bytes_per_us = std::min(cost.bytes_per_us, axes[axis].costs[kind].bytes_per_us);
    }
    worst.moves_beside |= axes[axis].moves_beside;
  }
  return worst;
}

uint64_t timeOver(const ashlar_rt_link &link, uint32_t kind, uint64_t messages, uint64_t bytes) {
  const ashlar_rt_message_cost &cost = link.costs[kind];
  return cost.bytes_per_us == 0
             ? 0
             : static_cast<uint64_t>(messageTimePs(static_cast<int64_t>(messages), static_cast<int64_t>(bytes),
                                                   static_cast<int64_t>(cost.latency_ns), static_cast<int64_t>(cost.bytes_per_us)));
}

} // namespace ashlar::rt
