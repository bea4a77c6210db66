// SPDX-License-Identifier: Apache-2.0
//
// Where the actors of a simulation stand, and the book of their times: sums by reason, and spans of the actors that are traced.

#ifndef ASHLAR_RUNTIME_SIMULATE_ACTORS_H
#define ASHLAR_RUNTIME_SIMULATE_ACTORS_H

#include "runtime/simulate/simulator.h"

#include <deque>
#include <vector>

namespace ashlar::rt {

// Returns a time that is longer by a factor.
uint64_t scaledTime(uint64_t ps, double factor);

// The next thing that an actor does in its run.
enum class Phase : uint8_t { kSlots, kBatch, kReceives, kItems, kEnd, kDone };

// The reason for which the device of an actor stands still.
enum class Wait : uint8_t { kNone, kTime, kSlot, kBatch, kMessage, kReceiving, kMembers, kToken, kChannel };

// A collective that was started beside the computation.
struct Started {
  uint32_t item, program;
};

// A repeat that it is in.
struct Loop {
  uint32_t begin, end; // items
  uint64_t left;       // iterations behind this one
};

// A rank that stands for its class.
struct Actor {
  uint32_t stage, device;
  double factor = 1; // of computation
  bool isTraced = false;
  size_t run = 0; // of all steps
  Phase phase = Phase::kSlots;
  Wait wait = Wait::kNone;
  uint64_t now = 0, sincePs = 0; // of the device; when it began to wait
  uint64_t beginPs = 0, stepPs = 0;
  uint32_t index = 0;   // receive or item
  uint32_t blocker = 0; // send, receive or item that it waits for
  std::vector<Loop> loops;
  std::deque<Started> channel; // in the order in which they were started
};

// The places of all actors, and their times. The tables and the result outlive it.
class ActorBook {
public:
  ActorBook(const StepTables &tables, Simulation &result) : tables(tables), result(result) {}

  // The run that an actor is at, the program of it, and where that is in all steps.
  const std::vector<ashlar_rt_run> &runsOf(const Actor &actor) const { return tables.runs[actor.stage]; }
  ashlar_rt_run runOf(const Actor &actor) const { return runsOf(actor)[actor.run % runsOf(actor).size()]; }
  uint64_t stepOf(const Actor &actor) const { return actor.run / runsOf(actor).size(); }
  uint64_t microBatchOf(const Actor &actor) const { return stepOf(actor) * tables.microBatches + runOf(actor).micro_batch; }
  const TimedProgram &programOf(const Actor &actor) const { return tables.programs[actor.stage][runOf(actor).program]; }
  const ashlar_rt_program &tableOf(const Actor &actor) const { return tables.stages[actor.stage].programs[runOf(actor).program]; }

  // Adds the time that an actor has waited to the reason of its wait. `startPs`: of the transfer of a collective that it waited for.
  void account(const Actor &actor, SimulatedClass &sums, uint64_t clock, uint64_t startPs) const;

  // Adds a span, of a traced actor.
  void record(const Actor &actor, SimulatedClass &sums, SpanKind kind, uint32_t index, uint64_t beginPs, uint64_t endPs) const;

  // Adds the instructions of an item that begins now, one after the other; a repeat that only computes ends them.
  void recordCompute(const Actor &actor, SimulatedClass &sums, const TimedItem &item) const;

protected:
  const StepTables &tables;
  Simulation &result;

private:
  void expose(const Actor &actor, SimulatedClass &sums, uint64_t clock, uint64_t startPs) const;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_ACTORS_H
