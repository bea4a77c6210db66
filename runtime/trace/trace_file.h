// SPDX-License-Identifier: Apache-2.0
//
// The record of a run, and its plan, as a file in the trace-event format, which ui.perfetto.dev and chrome://tracing open. docs/trace.md
// describes it.

#ifndef ASHLAR_RUNTIME_TRACE_TRACE_FILE_H
#define ASHLAR_RUNTIME_TRACE_TRACE_FILE_H

#include "runtime/base/output_file.h"
#include "runtime/base/recorder.h"
#include "runtime/trace/clocks.h"
#include "runtime/trace/trace_plan.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The record of one rank.
struct RankTrace {
  std::vector<Span> spans;
  uint64_t lostInstructions = 0, lostOthers = 0; // spans that found no room
  ClockOffset clock;                             // offset from rank 0's
};

// The parts of a trace. `image` and `variant` outlive it.
struct Trace {
  const ashlar_rt_image *image = nullptr;
  const ashlar_rt_variant *variant = nullptr; // of the first stage
  uint64_t firstStep = 1;                     // number of the first step in the trace, from 1 on
  uint64_t steps = 0;
  uint64_t microBatches = 1;      // of a step
  std::vector<RankTrace> ranks;   // devices of stage 0, of stage 1, ...
  std::vector<StagePlan> planned; // by stage; none: nothing was predicted
};

// Writes the events, from rank 0's first on. The caller commits the file.
Status writeTrace(const Trace &trace, OutputFile &file);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TRACE_TRACE_FILE_H
