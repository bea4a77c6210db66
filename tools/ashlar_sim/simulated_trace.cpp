// SPDX-License-Identifier: Apache-2.0
//
// Spans of classes -> spans of ranks.

#include "tools/ashlar_sim/simulated_trace.h"

#include "runtime/trace/trace_file.h"

namespace ashlar::sim {

rt::Status writeSimulatedTrace(const ashlar_rt_image &image, const rt::StepTables &tables, const rt::Simulation &simulation,
                               const std::vector<uint32_t> &ranks, rt::OutputFile &file) {
  rt::Trace trace;
  trace.image = &image;
  trace.variant = tables.stages.begin();
  trace.steps = 1;
  trace.microBatches = tables.microBatches;
  trace.ranks.resize(simulation.ranks.ofRank.size());
  for (uint32_t rank : ranks) {
    trace.ranks[rank].spans = simulation.classes[simulation.ranks.ofRank[rank]].spans;
  }
  ASHLAR_RETURN_IF_ERROR(rt::writeTrace(trace, file));
  return file.commit();
}

} // namespace ashlar::sim
