// SPDX-License-Identifier: Apache-2.0
//
// One step of a pipeline on a clock, from times alone: no IR. Each stage runs its programs in its order; a stage copies a message that one
// of its programs receives itself, once it was sent; a stage that can do neither waits.

#ifndef ASHLAR_PASSES_ANALYSIS_SCHEDULE_TIMELINE_H
#define ASHLAR_PASSES_ANALYSIS_SCHEDULE_TIMELINE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::analysis {

// One end of a channel between two stages. The n-th message that goes in on one side comes out n-th on the other.
struct ChannelEnd {
  int64_t stage;      // the other side
  int64_t channel;    // among those from the one stage to the other
  int64_t timePs = 0; // of a receiving end: time to copy a message
};

struct TimedProgram {
  std::string name;
  int64_t timePs;
  llvm::SmallVector<ChannelEnd> receives = {}, sends = {}; // before it runs, in turn; when it has run
};

struct OrderedRun {
  unsigned program; // index into the stage's programs
  int64_t microBatch;
};

struct StageWork {
  std::vector<TimedProgram> programs;
  std::vector<OrderedRun> order;
  int64_t slots = 1; // micro-batch k + slots sends from where micro-batch k did: a program waits until that was received
};

// A run of a program: receiving, and computing in one go from beginPs to endPs. The times between runs that are not received in are waited.
struct TimelineRun {
  unsigned program;
  int64_t microBatch;
  int64_t receivePs; // time to copy its messages, before beginPs
  int64_t beginPs, endPs;
};

struct StageTimeline {
  std::vector<TimelineRun> runs;        // in their order
  int64_t computePs = 0, receivePs = 0; // of all runs
  int64_t waitPs = 0;                   // the rest of the step
};

// A message, from the end of a run to the beginning of another.
struct TimelineMessage {
  int64_t from, to;      // stages
  size_t fromRun, toRun; // of these
};

struct Timeline {
  std::vector<StageTimeline> stages;
  std::vector<TimelineMessage> messages; // by the end of the step, in the order in which they were received
  int64_t timePs = 0;                    // from the first begin to the last end

  // Returns the share of the step in which a stage, or on average each stage, does nothing: 0 of a step of no time.
  double bubble(size_t stage) const;
  double bubble() const;
};

// Plays a step in which all stages begin at once, with nothing under way. Assumes that the orders end, as passes/stage proves, and that
// each channel has its two ends. O(runs + messages * log channels).
//
//   stage 0 runs a0 b0, stage 1 runs c0; a takes 1 and sends to c, c takes 2 and sends to b, b takes 1  ->  a 0-1, c 1-3, b 3-4: of the
//   step of 4, stage 0 waits 2, stage 1 waits 2
Timeline playStages(llvm::ArrayRef<StageWork> stages);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_SCHEDULE_TIMELINE_H
