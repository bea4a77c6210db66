// SPDX-License-Identifier: Apache-2.0
//
// Where the actors of a step stand, and the book of their times: sums by reason, and spans of the actors that are traced.

#ifndef ASHLAR_RUNTIME_TIMELINE_ACTORS_H
#define ASHLAR_RUNTIME_TIMELINE_ACTORS_H

#include "runtime/timeline/timed_step.h"

#include <vector>

namespace ashlar::rt {

// Returns a time that is longer by a factor.
uint64_t scaledTime(uint64_t ps, double factor);

// The next thing that an actor does in its run.
enum class Phase : uint8_t { kSlots, kBatch, kReceives, kItems, kEnd, kDone };

// The reason for which the device of an actor stands still.
enum class Wait : uint8_t { kNone, kTime, kSlot, kBatch, kMessage, kReceiving, kMembers, kToken, kChannel };

// The one who runs a stage: a rank.
struct Role {
  uint32_t stage;
  uint32_t device = 0; // of the stage
  double factor = 1;   // of the time of computation
  bool isTraced = false;
  bool isLost = false; // does nothing at all
};

// A collective that was started beside the computation.
struct Started {
  uint32_t item, program;
};

// A repeat that it is in.
struct Loop {
  uint32_t begin, end; // items
  uint64_t left;       // iterations behind this one
};

struct Actor {
  explicit Actor(const Role &role) : role(role) {}

  Role role;
  uint64_t step = 0;
  size_t run = 0; // of the step
  Phase phase = Phase::kSlots;
  Wait wait = Wait::kNone;
  uint64_t now = 0, sincePs = 0; // of the device; when it began to wait
  uint64_t beginPs = 0, stepPs = 0, receivePs = 0;
  uint32_t index = 0;   // receive or item
  uint32_t blocker = 0; // send, receive or item that it waits for
  std::vector<Loop> loops;
  std::vector<Started> channel; // in the order in which they were started
};

// The places of all actors, and their times. The step and the times outlive it.
class ActorBook {
public:
  ActorBook(const TimedStep &step, std::vector<ActorTimes> &times) : step(step), times(times) {}

  // The run that an actor is at, the program of it, and where that is in all steps.
  const std::vector<ashlar_rt_run> &runsOf(const Actor &actor) const { return step.runs[actor.role.stage]; }
  const ashlar_rt_run &runOf(const Actor &actor) const { return runsOf(actor)[actor.run]; }
  uint64_t microBatchOf(const Actor &actor) const { return actor.step * step.microBatches + runOf(actor).micro_batch; }
  const TimedProgram &programOf(const Actor &actor) const { return step.programs[actor.role.stage][runOf(actor).program]; }

  // Adds the time that an actor has waited to the reason of its wait. `startPs`: of the transfer of a collective that it waited for.
  void account(Actor &actor, ActorTimes &sums, uint64_t clock, uint64_t startPs) const;

  // Adds a span, of a traced actor.
  void record(const Actor &actor, ActorTimes &sums, SpanKind kind, uint32_t index, uint64_t beginPs, uint64_t endPs) const;

  // Adds the instructions of an item that begins now, one after the other; a repeat that only computes ends them.
  void recordCompute(const Actor &actor, ActorTimes &sums, const TimedItem &item) const;

protected:
  const TimedStep &step;
  std::vector<ActorTimes> &times; // by actor

private:
  void expose(const Actor &actor, ActorTimes &sums, uint64_t clock, uint64_t startPs) const;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TIMELINE_ACTORS_H
