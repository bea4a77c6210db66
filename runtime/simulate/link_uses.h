// SPDX-License-Identifier: Apache-2.0
//
// The links that a transfer takes, and its part in each: a host's adapters, or the own links of ranks of one host. Sending and receiving
// have links of their own.

#ifndef ASHLAR_RUNTIME_SIMULATE_LINK_USES_H
#define ASHLAR_RUNTIME_SIMULATE_LINK_USES_H

#include "runtime/simulate/machine.h"
#include "runtime/simulate/rank_classes.h"
#include "runtime/simulate/step_tables.h"
#include "runtime/timeline/link_loads.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The times of links alone already count that all groups over the same axes share a host's adapters, and all messages of a stage to
// another one. So these together take the adapters that they can use, and a rank its part of them. Within a host a transfer takes the whole
// link of each of its ranks, and none where the devices themselves move the data. Without a machine nothing is shared.
class LinkUses {
public:
  // They outlive it.
  LinkUses(const SimulatedMachine &machine, const StepTables &tables, const RankClasses &ranks);

  // Returns the number of links of all classes of hosts and ranks.
  uint32_t count() const { return static_cast<uint32_t>(2 * (ranks.hosts.size() + ranks.classes.size())); }

  // Returns the uses of all groups over an axis set that have these classes.
  std::vector<LinkUse> ofGroup(uint32_t axisSet, const std::vector<uint32_t> &classes) const;

  // Returns the uses of a message from each rank of a class to its peer in another stage; of the classes' first ranks.
  std::vector<LinkUse> ofMessage(uint32_t from, uint32_t to) const;

private:
  uint64_t hostOf(uint32_t rank) const { return rank / machine.ranksPerHost; }
  uint64_t demandOf(uint64_t devices) const;
  uint64_t countOn(uint32_t host, uint32_t rankClass) const;
  void countSpanning();

  const SimulatedMachine &machine;
  const StepTables &tables;
  const RankClasses &ranks;
  std::vector<std::vector<uint64_t>> spanning; // [axis set][stage]: most ranks of a host whose groups have others, too
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_LINK_USES_H
