// SPDX-License-Identifier: Apache-2.0
//
// One step of a pipeline as it is reported: the runs of each stage, and the messages between them.

#ifndef ASHLAR_COMPILER_REPORT_TIMELINE_H
#define ASHLAR_COMPILER_REPORT_TIMELINE_H

#include "runtime/timeline/staged_step.h"

#include <cstdint>
#include <vector>

namespace ashlar::report {

// A run of a program: receiving, and computing in one go from beginPs to endPs. The times between runs that are not received in are waited.
struct TimelineRun {
  unsigned program; // index into the stage's programs
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
  std::vector<TimelineMessage> messages; // by the end of the step, in the order in which the runs that take them begin
  int64_t timePs = 0;                    // from the first begin to the last end

  // Returns the share of the step in which a stage, or on average each stage, does nothing: 0 of a step of no time.
  double bubble(size_t stage) const;
  double bubble() const;
};

// Returns the step of a pipeline, played. Assumes that the orders end, as passes/stage proves. O(runs * log stages + messages).
Timeline makeTimeline(const rt::TimedStep &step, const std::vector<rt::StageMessages> &channels);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_TIMELINE_H
