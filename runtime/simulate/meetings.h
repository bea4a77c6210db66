// SPDX-License-Identifier: Apache-2.0
//
// Where the actors of a simulation meet: groups of collectives, and channels between stages.

#ifndef ASHLAR_RUNTIME_SIMULATE_MEETINGS_H
#define ASHLAR_RUNTIME_SIMULATE_MEETINGS_H

#include "runtime/simulate/link_uses.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The index of nothing.
constexpr uint32_t kNone = ~0u;

// The members of one group, one of each class.
struct GroupState {
  struct Arrival {
    uint32_t actor;
    bool isBeside;
    uint64_t atPs;
  };
  std::vector<uint32_t> members; // classes
  std::vector<Arrival> arrivals;
  uint64_t startPs = 0;
  std::vector<LinkUse> uses;
};

// The messages of a channel between two classes, in order. The next one is taken once it was sent and the receiver comes to it.
struct MessageQueue {
  uint32_t sender, receiver;
  uint64_t sent = 0, taken = 0;     // how many
  std::vector<uint64_t> lastOfSlot; // of the sender: the message that went out of it last, from 1 on
  std::vector<LinkUse> uses;
};

// All groups and queues. Each class is in one group over an axis set: ranks of a class have groups of equal classes.
struct Meetings {
  Meetings(const StepTables &tables, const RankClasses &ranks, const LinkUses &links);

  std::vector<GroupState> groups;
  std::vector<MessageQueue> queues;
  std::vector<std::vector<uint32_t>> groupOf, queueOf; // [axis set][class], [channel][class]: indices
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_MEETINGS_H
