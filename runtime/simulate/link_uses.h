// SPDX-License-Identifier: Apache-2.0
//
// The links that a transfer takes, and its part in each: the adapters of a host, or of a rail, and a pod's uplinks, or the own links of
// ranks of one host.
// Sending and receiving have links of their own.

#ifndef ASHLAR_RUNTIME_SIMULATE_LINK_USES_H
#define ASHLAR_RUNTIME_SIMULATE_LINK_USES_H

#include "runtime/simulate/machine.h"
#include "runtime/simulate/rank_classes.h"
#include "runtime/simulate/step_tables.h"
#include "runtime/timeline/link_loads.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The times of links alone already count that all groups over the same axes share a host's adapters and a pod's uplinks, and all messages
// of a stage to another one. So these together take the links that they can use, and a rank its part of them: of the uplinks all where they
// limit it, and then less of the adapters, and the other way round. Within a host a transfer takes the whole link of each of its ranks, and
// none where the devices themselves move the data. Without a machine nothing is shared.
class LinkUses {
public:
  // They outlive it.
  LinkUses(const SimulatedMachine &machine, const StepTables &tables, const RankClasses &ranks);

  // Returns the number of links of all classes of pools, pods and ranks.
  uint32_t count() const { return static_cast<uint32_t>(2 * (ranks.pools.size() + ranks.pods.size() + ranks.classes.size())); }

  // Returns the uses of all groups over an axis set that have these classes.
  std::vector<LinkUse> ofGroup(uint32_t axisSet, const std::vector<uint32_t> &classes) const;

  // Returns the uses of a message from each rank of a class to its peer in another stage; of the classes' first ranks.
  std::vector<LinkUse> ofMessage(uint32_t from, uint32_t to) const;

private:
  // Most ranks of a pool of adapters that send to other hosts, and of a pod that send to others.
  struct Leaving {
    uint64_t pools = 0, pods = 0;
  };
  // The part that each of them takes of the adapters of its pool, and of the uplinks of its pod.
  struct Parts {
    uint64_t ofPool, ofPod;
  };
  // The first link of a kind of place.
  uint32_t firstOfPods() const { return static_cast<uint32_t>(2 * ranks.pools.size()); }
  uint32_t firstOfRanks() const { return static_cast<uint32_t>(2 * (ranks.pools.size() + ranks.pods.size())); }

  Parts partsOf(const Leaving &most) const;
  Leaving countMessages(uint32_t fromStage, uint32_t toStage) const;
  void countGroups();

  const SimulatedMachine &machine;
  const StepTables &tables;
  const RankClasses &ranks;
  std::vector<std::vector<Leaving>> ofGroups; // [axis set][stage]
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_LINK_USES_H
