// SPDX-License-Identifier: Apache-2.0
//
// Steps on a clock: actors, their orders, slots, messages, collectives and the links that they share. It knows nothing of tables, meshes or
// hosts.

#ifndef ASHLAR_RUNTIME_TIMELINE_STEP_PLAYER_H
#define ASHLAR_RUNTIME_TIMELINE_STEP_PLAYER_H

#include "runtime/timeline/actors.h"
#include "runtime/timeline/meetings.h"
#include "runtime/timeline/timed_step.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

struct PlayOptions {
  uint64_t steps = 1;      // in a row
  uint64_t batchPs = 0;    // a batch of a micro-batch is there every so often, the first one at once; 0: all are
  uint64_t handOverPs = 0; // that a collective takes besides which is only started
  uint32_t links = 0;      // that transfers may use
};

// Plays steps in which all actors begin at once, with nothing under way, and returns the times of each. An actor runs the order of its
// stage; before a run it waits for the slots that it sends from, then takes its messages one after the other. A collective begins when its
// last member comes; one that is only started goes beside the computation, in its order. Transfers that use one link at one time share its
// rate. Actors that wait for each other without end are not done. O(events * log(events)).
//
//   stages 0 and 1, forward of 10 each, two micro-batches, free messages -> 0: [0, 10) [10, 20), 1: [10, 20) [20, 30)
std::vector<ActorTimes> playSteps(const TimedStep &step, const std::vector<Role> &roles, Meetings meetings, const PlayOptions &options);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TIMELINE_STEP_PLAYER_H
