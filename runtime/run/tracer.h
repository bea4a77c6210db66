// SPDX-License-Identifier: Apache-2.0
//
// --trace: the choice of recorded steps, and the one file of rank 0 from the records of all ranks.

#ifndef ASHLAR_RUNTIME_RUN_TRACER_H
#define ASHLAR_RUNTIME_RUN_TRACER_H

#include "runtime/run/session.h"
#include "runtime/trace/trace_file.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// Most spans in a file, of all ranks together; a file of so many has some 200 MB. A rank may always keep kLeastSpans.
constexpr size_t kMostSpans = size_t{1} << 20;
constexpr size_t kLeastSpans = 4096;

// The steps that are recorded: numbers [first, last], from 1 on.
struct TraceWindow {
  uint64_t first = 0, last = 0;
};

// Chooses the window of a run of steps `firstStep` (0 where it did not go on from a checkpoint) to `totalSteps`: --trace-steps (0: not
// given), else its steps 3 to 5, after one to set out and one to warm up, or the last three of a shorter run.
Status chooseWindow(TraceWindow asked, uint64_t firstStep, uint64_t totalSteps, TraceWindow &window);

// Returns the room for `steps` times these runs of programs, when `ranks` share the file: all spans, or, where that are too many, as many
// instructions as there is room for beside the rest.
SpanRoom roomFor(const ashlar_rt_variant &variant, const std::vector<ashlar_rt_run> &runs, uint64_t steps, size_t ranks);

// One trace. All ranks make the same calls; nothing is allocated between two ends of steps but at the end of the last one.
class Tracer {
public:
  // Assumes that the session has a recorder, which the executor knows.
  explicit Tracer(Session &session) : session(session), recorder(*session.recorder) {}

  // Chooses the steps and makes room. `firstStep`: steps done in earlier runs; `runs`: a step's runs, by stage; `microBatches`: of a step.
  Status prepare(uint64_t firstStep, uint64_t totalSteps, uint64_t microBatches, StepRuns runs);

  // Begins the file, on rank 0.
  Status open();

  // The last step that is recorded.
  uint64_t lastStep() const { return window.last; }

  // Called before and after step number `number`, from 0 on. After the last recorded step the file is written: `line` then becomes the line
  // of rank 0. close() reports a file that cannot be written.
  Status beginStep(uint64_t number);
  Status endStep(uint64_t number, std::string &line);

  // Returns whether the file was written.
  Status close() { return written; }

private:
  Status gather(Trace &trace);
  Status write(Trace &trace, std::string &line);

  Session &session;
  Recorder &recorder;
  StepRuns runs;
  TraceWindow window;
  uint64_t microBatches = 1;
  int64_t stepBegin = 0;
  std::vector<ClockOffset> clocks; // by rank
  OutputFile file;
  Status written;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_TRACER_H
