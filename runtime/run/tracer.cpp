// SPDX-License-Identifier: Apache-2.0
//
// Ranks keep their spans until the last step of the window has ended; then rank 0 gets them.

#include "runtime/run/tracer.h"

#include "runtime/execute/repeats.h"
#include "runtime/run/gather_bytes.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

// By default: as many steps behind so many others.
constexpr uint64_t kSkippedSteps = 2, kTracedSteps = 3;

// What a rank tells ahead of its spans.
struct Losses {
  uint64_t lostInstructions, lostOthers;
};
static_assert(sizeof(Losses) % alignof(Span) == 0);

} // namespace

Status chooseWindow(TraceWindow asked, uint64_t firstStep, uint64_t totalSteps, TraceWindow &window) {
  const uint64_t steps = totalSteps - firstStep;
  if (steps == 0) {
    return invalid("--trace: the run has 0 steps, so there is nothing to trace");
  }
  if (asked.first != 0 && asked.first <= firstStep) {
    return invalid("--trace-steps {}-{}: the run goes on after step {}; name steps from {} to {}", asked.first, asked.last, firstStep,
                   firstStep + 1, totalSteps);
  }
  if (asked.last > totalSteps) {
    return invalid("--trace-steps {}-{}: the run has {} steps; name steps from {} to {}", asked.first, asked.last, totalSteps,
                   firstStep + 1, totalSteps);
  }
  window.last = firstStep + std::min(kSkippedSteps + kTracedSteps, steps);
  window.first = window.last - std::min(kTracedSteps, steps) + 1;
  window = asked.first != 0 ? asked : window;
  return Status();
}

SpanRoom roomFor(const ashlar_rt_variant &variant, const std::vector<ashlar_rt_run> &runs, uint64_t steps, size_t ranks) {
  uint64_t spans = 1, instructions = 0, beside = 0; // of a step
  for (const ashlar_rt_run &run : runs) {
    const ashlar_rt_program &program = variant.programs[run.program];
    spans += 1 + run.takes_batch + program.num_receives + 2 * program.num_sends;
    const std::vector<uint64_t> times = timesOf(program);
    for (uint32_t i = 0; i < program.num_instrs; ++i) {
      const ashlar_rt_instr &instr = program.instrs[i];
      const auto *desc = instr.kind == ASHLAR_RT_COLLECTIVE ? static_cast<const ashlar_rt_collective_desc *>(instr.desc) : nullptr;
      instructions += times[i];
      beside += desc != nullptr && desc->token != 0 ? times[i] : 0;
    }
  }
  uint64_t left = std::max(kMostSpans / ranks, kLeastSpans);
  auto take = [&](uint64_t each) {
    const uint64_t most = std::max<uint64_t>(each, 1), taken = steps > left / most ? left : steps * each;
    left -= taken;
    return static_cast<size_t>(taken);
  };
  SpanRoom room;
  room.spans = take(spans);
  room.beside = take(beside);
  room.instructions = take(instructions);
  return room;
}

Status Tracer::prepare(uint64_t firstStep, uint64_t totalSteps, uint64_t perStep, StepRuns stepRuns) {
  runs = std::move(stepRuns);
  microBatches = perStep;
  ASHLAR_RETURN_IF_ERROR(chooseWindow({session.options->traceFirst, session.options->traceLast}, firstStep, totalSteps, window));
  const ashlar_rt_variant &variant = *session.variant;
  const uint64_t steps = window.last - window.first + 1;
  recorder.reserve(roomFor(variant, runs[variant.stage], steps, static_cast<size_t>(session.communicator->processes())));
  return session.executor->reserveTrace(steps * runs[variant.stage].size());
}

Status Tracer::open() {
  return session.communicator->rank() == 0 ? file.create(session.options->traceFile) : Status();
}

Status Tracer::beginStep(uint64_t number) {
  if (number + 1 == window.first) {
    ASHLAR_RETURN_IF_ERROR(session.executor->beginTrace());
    ASHLAR_RETURN_IF_ERROR(compareClocks(*session.communicator, clocks));
    ASHLAR_RETURN_IF_ERROR(session.communicator->barrier());
    recorder.open();
  }
  if (recorder.records()) {
    recorder.setStep(number + 1 - window.first, number * microBatches);
    stepBegin = nanoseconds();
  }
  return Status();
}

Status Tracer::endStep(uint64_t number, std::string &line) {
  if (!recorder.records()) {
    return Status();
  }
  recorder.setMicroBatch(number * microBatches);
  if (!session.executor->runsAhead()) { // else nobody knows when it ends
    recorder.add(SpanKind::kStep, /*program=*/0, /*index=*/0, stepBegin, nanoseconds());
  }
  if (number + 1 < window.last) {
    return Status();
  }
  recorder.close();
  ASHLAR_RETURN_IF_ERROR(session.executor->endTrace());
  Trace trace;
  ASHLAR_RETURN_IF_ERROR(gather(trace));
  if (session.communicator->rank() == 0) {
    written = write(trace, line);
    session.communicator->noteProgress();
  }
  return Status();
}

Status Tracer::gather(Trace &trace) {
  const std::vector<Span> mine = recorder.spans();
  std::vector<char> bytes(sizeof(Losses) + mine.size() * sizeof(Span));
  const Losses told = {recorder.lostInstructions(), recorder.lostOthers()};
  std::memcpy(bytes.data(), &told, sizeof(told));
  std::copy(mine.begin(), mine.end(), reinterpret_cast<Span *>(bytes.data() + sizeof(told)));
  std::vector<std::vector<char>> all;
  ASHLAR_RETURN_IF_ERROR(gatherBytes(session, bytes, all));
  for (size_t rank = 0; rank < all.size() && !all[rank].empty(); ++rank) {
    Losses found;
    std::memcpy(&found, all[rank].data(), sizeof(found));
    const auto *first = reinterpret_cast<const Span *>(all[rank].data() + sizeof(found));
    trace.ranks.push_back({std::vector<Span>(first, first + (all[rank].size() - sizeof(found)) / sizeof(Span)), found.lostInstructions,
                           found.lostOthers, clocks[rank]});
  }
  return Status();
}

Status Tracer::write(Trace &trace, std::string &line) {
  const Stages stages(*session.variant);
  trace.image = session.image;
  trace.variant = stages.begin();
  trace.firstStep = window.first;
  trace.steps = window.last - window.first + 1;
  trace.microBatches = microBatches;
  ASHLAR_RETURN_IF_ERROR(planSteps(stages, runs, trace.steps, microBatches, trace.planned));
  ASHLAR_RETURN_IF_ERROR(writeTrace(trace, file));
  ASHLAR_RETURN_IF_ERROR(file.commit());
  uint64_t lost = 0;
  for (const RankTrace &rank : trace.ranks) {
    lost += rank.lostInstructions + rank.lostOthers;
  }
  line = fmt::format("trace of steps {} to {} in {}", window.first, window.last, session.options->traceFile);
  line += lost == 0 ? "" : fmt::format("; {} instructions found no room, trace fewer steps by --trace-steps for more of them", lost);
  return Status();
}

} // namespace ashlar::rt
