// SPDX-License-Identifier: Apache-2.0
//
// Where the actors of a step meet: groups of collectives, and channels between stages.

#ifndef ASHLAR_RUNTIME_TIMELINE_MEETINGS_H
#define ASHLAR_RUNTIME_TIMELINE_MEETINGS_H

#include "runtime/timeline/link_loads.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The index of nothing.
constexpr uint32_t kNone = ~0u;

// The members of one group.
struct GroupState {
  struct Arrival {
    uint32_t actor;
    bool isBeside;
    uint64_t atPs;
  };
  std::vector<uint32_t> members; // actors
  std::vector<Arrival> arrivals;
  uint64_t startPs = 0;
  std::vector<LinkUse> uses;
};

// The messages of a channel between two actors, in order. The next one is taken once it was sent and the receiver comes to it.
struct MessageQueue {
  uint32_t sender, receiver;
  uint64_t ps; // of a message alone
  std::vector<LinkUse> uses;
  uint64_t sent = 0, taken = 0;          // how many
  std::vector<uint64_t> lastOfSlot = {}; // of the sender: the message that went out of it last, from 1 on
};

// All groups and queues. Each actor is in at most one group over an axis set, and in one queue of a channel.
struct Meetings {
  Meetings(size_t axisSets, size_t channels, size_t actors)
      : actors(actors), groupOf(axisSets * actors, kNone), queueOf(channels * actors, kNone) {}

  // The index of the group over an axis set, or of the queue of a channel, that an actor is in; or kNone.
  uint32_t &group(uint32_t axisSet, uint32_t actor) { return groupOf[axisSet * actors + actor]; }
  uint32_t &queue(uint32_t channel, uint32_t actor) { return queueOf[channel * actors + actor]; }

  std::vector<GroupState> groups;
  std::vector<MessageQueue> queues;

private:
  size_t actors;
  std::vector<uint32_t> groupOf, queueOf;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TIMELINE_MEETINGS_H
