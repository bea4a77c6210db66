// SPDX-License-Identifier: Apache-2.0
//
// A step as times: the programs of all stages, the order in which each stage runs them, and the times of the actors that run them.

#ifndef ASHLAR_RUNTIME_TIMELINE_TIMED_STEP_H
#define ASHLAR_RUNTIME_TIMELINE_TIMED_STEP_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/recorder.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace ashlar::rt {

// Instructions [begin, end) of a program. Computation in a row is one item.
struct TimedItem {
  enum Kind : uint8_t { kCompute, kCollective, kWait, kRepeat } kind;
  uint32_t begin, end;
  uint64_t ps = 0;          // compute, collective: alone
  uint32_t owner = 0;       // compute: 0, or the one device + 1 that runs it
  uint32_t token = 0;       // wait: awaited; collective: not 0 where it is only started
  uint32_t axisSet = 0;     // collective: see Meetings::group
  bool movesBeside = false; // collective: its links move data while the devices compute
  uint32_t items = 0;       // repeat: that many items behind it run `count` times
  uint64_t count = 0;
};

// The end of a channel that a program has.
struct ChannelUse {
  uint32_t channel; // see Meetings::queue
  uint32_t index;   // of the transfer in the program
};

struct TimedProgram {
  std::vector<TimedItem> items;
  uint64_t otherPs = 0;                    // computation that no item has, at the end
  std::vector<ChannelUse> receives, sends; // before it runs, in turn; when it has run
  const ashlar_rt_instr *instrs = nullptr; // of the items, for spans; null: none are recorded
};

// The programs and orders of a step, by stage.
struct TimedStep {
  std::vector<std::vector<TimedProgram>> programs;
  std::vector<std::vector<ashlar_rt_run>> runs; // of a step
  std::vector<uint64_t> slots;                  // micro-batch k + slots sends from where micro-batch k did; at least 1
  uint64_t microBatches = 1;                    // of a step
};

// One run of a program. Picoseconds on the clock, which begins at 0 for all.
struct SimulatedRun {
  uint64_t begin, end; // from the arrival of its inputs on
  uint32_t program;    // index into the programs of the stage
  uint32_t step, microBatch;
  uint64_t receivePs; // taking its messages, before `begin`
};

// The time of an actor in a collective that it stood still for.
struct ExposedTime {
  uint64_t ps = 0;        // of the device
  uint64_t membersPs = 0; // of that, before all members had come
  uint64_t times = 0;     // that the collective ran
};

// The thing that an actor waits for without end.
struct Standstill {
  enum Kind : uint8_t { kNothing, kMessage, kSlot, kCollective } kind = kNothing;
  uint32_t program = 0, index = 0; // the receive or send of the program; the instruction of a collective
  std::vector<uint32_t> awaits;    // actors
};

// The time of one actor. What is left of the steps is idle: it has nothing more to do.
struct ActorTimes {
  uint64_t computePs = 0;                                       // kernels and library calls
  uint64_t receivePs = 0;                                       // taking messages
  uint64_t messagePs = 0, slotPs = 0, batchPs = 0;              // waiting: for a message, for a slot to be read, for data
  std::map<std::pair<uint32_t, uint32_t>, ExposedTime> exposed; // by {program, instruction}
  uint64_t endPs = 0;                                           // of its last run
  std::vector<SimulatedRun> runs;
  std::vector<Span> spans; // nanoseconds, of a traced actor
  bool isDone = false;     // has run all of its order
  Standstill standstill;   // where it is not

  uint64_t exposedPs() const;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TIMELINE_TIMED_STEP_H
