// SPDX-License-Identifier: Apache-2.0
//
// A process of the file for each rank and one for what was planned of it, with a track for each kind of span. Of a message both ends were
// recorded, by two ranks: here they meet, by channel, step and micro-batch, which say when it was on its way and who waited for whom.

#include "runtime/trace/trace_file.h"

#include "runtime/base/json.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

namespace ashlar::rt {
namespace {

// Shorter waits are none: who finds everything in its place is not shown as waiting.
constexpr int64_t kLeastWaitNs = 1000;

// So many bytes are handed to the file at once.
constexpr size_t kChunkBytes = size_t{1} << 20;

// The tracks of a process, in the order in which they are shown. Messages that are on their way at one time have a track each, from kSends
// on.
enum Track : uint32_t { kSteps = 1, kPrograms, kInstructions, kBesides, kWaits, kReceives, kSends };

constexpr uint32_t kTracks = 100000; // of a process, at most; thread numbers are unique in the file

// One message: {rank that sends, rank that receives, channel, step, micro-batch}.
using MessageKey = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;

// Times on rank 0's clock.
struct Interval {
  int64_t begin, end;
};

const char *categoryOf(const ashlar_rt_instr &instr) {
  switch (instr.kind) {
  case ASHLAR_RT_GEMM:
    return "product";
  case ASHLAR_RT_ATTENTION:
    return "attention";
  case ASHLAR_RT_CONV:
    return "convolution";
  case ASHLAR_RT_COLLECTIVE:
    return "collective";
  case ASHLAR_RT_COPY:
    return "copy";
  case ASHLAR_RT_INSERT:
    return "insert";
  case ASHLAR_RT_WAIT:
    return "wait";
  default:
    return "kernel";
  }
}

// Bytes that a device puts into a collective.
uint64_t collectiveBytes(const ashlar_rt_instr &instr) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < instr.num_buffers / 2; ++i) { // inputs come first
    bytes += instr.buffers[i].bytes;
  }
  return bytes;
}

class TraceWriter {
public:
  TraceWriter(const Trace &trace, OutputFile &file) : trace(trace), file(file), stages(*trace.variant) {
    processes = static_cast<uint32_t>(trace.ranks.size()) / stages.size();
  }

  Status write() {
    findZero();
    findMessages();
    text = "{\"traceEvents\":[\n";
    for (uint32_t rank = 0; rank < trace.ranks.size(); ++rank) {
      if (!isShown(rank)) {
        continue;
      }
      writeRank(rank);
      writePlan(rank);
      ASHLAR_RETURN_IF_ERROR(flush(kChunkBytes));
    }
    text += "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":" + facts() + "}\n";
    return flush(/*atLeast=*/0);
  }

private:
  // A rank with neither a record nor a plan, of a simulation, is left out.
  bool isShown(uint32_t rank) const { return !trace.ranks[rank].spans.empty() || !trace.planned.empty(); }

  const ashlar_rt_variant &stageOf(uint32_t rank) const { return stages[rank / processes]; }
  const ashlar_rt_program &programOf(uint32_t rank, const Span &span) const { return stageOf(rank).programs[span.program]; }
  uint32_t peerOf(uint32_t rank, const ashlar_rt_transfer &transfer) const { return transfer.stage * processes + rank % processes; }
  static uint32_t pidOf(uint32_t rank, bool isPlanned) { return 2 * rank + (isPlanned ? 2 : 1); }

  Interval timesOf(uint32_t rank, const Span &span) const {
    const int64_t shift = zero + trace.ranks[rank].clock.offset;
    return {span.begin - shift, span.end - shift};
  }

  MessageKey keyOf(uint32_t rank, const ashlar_rt_transfer &transfer, bool isSend, const Span &span) const {
    const uint32_t peer = peerOf(rank, transfer);
    return {isSend ? rank : peer, isSend ? peer : rank, transfer.channel, span.step, span.microBatch};
  }

  void findZero() {
    zero = INT64_MAX;
    for (const RankTrace &rank : trace.ranks) {
      for (const Span &span : rank.spans) {
        zero = std::min(zero, span.begin - rank.clock.offset);
      }
    }
  }

  void findMessages() {
    for (uint32_t rank = 0; rank < trace.ranks.size(); ++rank) {
      for (const Span &span : trace.ranks[rank].spans) {
        const SpanKind kind = static_cast<SpanKind>(span.kind);
        if (kind == SpanKind::kSend) {
          sent[keyOf(rank, programOf(rank, span).sends[span.index], /*isSend=*/true, span)] = timesOf(rank, span);
        } else if (kind == SpanKind::kReceive) {
          received[keyOf(rank, programOf(rank, span).receives[span.index], /*isSend=*/false, span)] = timesOf(rank, span);
        }
      }
    }
  }

  // Begins an event: everything but its own keys.
  void begin(const char *phase, uint32_t pid, uint32_t track) {
    text += fmt::format("{}{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}", isFirst ? "" : ",\n", phase, pid, pid * kTracks + track);
    isFirst = false;
  }

  static std::string microseconds(int64_t ns) {
    return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
  }

  // A span of time on a track. `args`: the inside of a JSON object.
  void slice(uint32_t pid, uint32_t track, Interval times, const char *category, const std::string &name, const std::string &args) {
    begin("X", pid, track);
    text += fmt::format(",\"ts\":{},\"dur\":{},\"cat\":\"{}\",\"name\":{},\"args\":{{{}}}}}", microseconds(times.begin),
                        microseconds(times.end - times.begin), category, jsonString(name), args);
    tracks.insert(track);
  }

  // An arrow's begin ("s") or end ("f").
  void arrow(const char *phase, uint32_t pid, uint32_t track, int64_t time, uint64_t id) {
    begin(phase, pid, track);
    text += fmt::format(",\"ts\":{},\"cat\":\"message\",\"name\":\"message\",\"id\":{}{}}}", microseconds(time), id,
                        *phase == 'f' ? ",\"bp\":\"e\"" : "");
  }

  std::string runArgs(uint32_t rank, uint32_t step, uint32_t microBatch) const {
    const ashlar_rt_variant &variant = stageOf(rank);
    const uint64_t number = (trace.firstStep - 1 + step) * trace.microBatches + microBatch;
    const std::string slot = variant.slot_bytes != 0 ? fmt::format(",\"slot\":{}", number % slotsOf(variant)) : "";
    return fmt::format("\"step\":{},\"micro_batch\":{}{}", trace.firstStep + step, microBatch, slot);
  }

  std::string messageArgs(uint32_t rank, const char *side, const ashlar_rt_transfer &transfer, const Span &span) const {
    return fmt::format("\"{}\":{},\"channel\":{},\"bytes\":{},{}", side, peerOf(rank, transfer), transfer.channel,
                       stageOf(rank).tensors[transfer.tensor].buffer.bytes, runArgs(rank, span.step, span.microBatch));
  }

  void writeSpan(uint32_t rank, const Span &span) {
    const uint32_t pid = pidOf(rank, /*isPlanned=*/false);
    const Interval times = timesOf(rank, span);
    switch (static_cast<SpanKind>(span.kind)) {
    case SpanKind::kStep:
      return slice(pid, kSteps, times, "step", fmt::format("step {}", trace.firstStep + span.step), "");
    case SpanKind::kProgram:
      return slice(pid, kPrograms, times, "program", programOf(rank, span).name, runArgs(rank, span.step, span.microBatch));
    case SpanKind::kBatch:
      return wait(rank, times, "wait for batch", runArgs(rank, span.step, span.microBatch));
    case SpanKind::kInstruction:
      return instruction(rank, span, kInstructions, times);
    case SpanKind::kBeside:
      return instruction(rank, span, kBesides, times);
    case SpanKind::kReceive:
      return receive(rank, span, times);
    case SpanKind::kReclaim: {
      const ashlar_rt_transfer &transfer = programOf(rank, span).sends[span.index];
      const char *name = stageOf(rank).tensors[transfer.tensor].name;
      return wait(rank, times, fmt::format("wait until stage {} has {}", transfer.stage, name),
                  messageArgs(rank, "to_rank", transfer, span));
    }
    case SpanKind::kSend: // all of a rank together, below
      return;
    }
  }

  void wait(uint32_t rank, Interval times, const std::string &name, const std::string &args) {
    if (times.end - times.begin >= kLeastWaitNs) {
      slice(pidOf(rank, /*isPlanned=*/false), kWaits, times, "wait", name, args);
    }
  }

  void instruction(uint32_t rank, const Span &span, Track track, Interval times) {
    const ashlar_rt_instr &instr = programOf(rank, span).instrs[span.index];
    const Mesh mesh(stageOf(rank));
    const int device = mesh.firstDeviceOf(static_cast<int>(rank)), owner = static_cast<int>(instr.owner) - 1;
    if (owner >= 0 && (owner < device || owner >= device + mesh.devicesPerProcess())) {
      return; // it is left out here
    }
    std::string args = runArgs(rank, span.step, span.microBatch);
    if (instr.kind == ASHLAR_RT_COLLECTIVE) {
      args += fmt::format(",\"bytes\":{}", collectiveBytes(instr));
    }
    slice(pidOf(rank, /*isPlanned=*/false), track, times, categoryOf(instr), instr.name, args);
  }

  // A message that was not there yet when it was asked for was waited for.
  void receive(uint32_t rank, const Span &span, Interval times) {
    const ashlar_rt_transfer &transfer = programOf(rank, span).receives[span.index];
    const std::string name = stageOf(rank).tensors[transfer.tensor].name, args = messageArgs(rank, "from_rank", transfer, span);
    slice(pidOf(rank, /*isPlanned=*/false), kReceives, times, "receive", "receive " + name, args);
    if (const auto send = sent.find(keyOf(rank, transfer, /*isSend=*/false, span)); send != sent.end()) {
      const int64_t there = std::clamp(send->second.begin, times.begin, times.end);
      wait(rank, {times.begin, there}, fmt::format("wait for {} of stage {}", name, transfer.stage), args);
    }
  }

  // The messages of a rank, from being offered to being received, on as many tracks as are on their way at one time; and an arrow each.
  void writeSends(uint32_t rank) {
    std::vector<const Span *> sends; // in the order in which they were offered
    for (const Span &span : trace.ranks[rank].spans) {
      if (static_cast<SpanKind>(span.kind) == SpanKind::kSend) {
        sends.push_back(&span);
      }
    }
    std::vector<int64_t> ends; // by track: of the last message
    for (const Span *span : sends) {
      const ashlar_rt_transfer &transfer = programOf(rank, *span).sends[span->index];
      Interval times = timesOf(rank, *span);
      const auto found = received.find(keyOf(rank, transfer, /*isSend=*/true, *span));
      times.end = std::max(times.begin, found != received.end() ? found->second.end : times.end);
      const auto free = std::find_if(ends.begin(), ends.end(), [&](int64_t end) { return end <= times.begin; });
      const auto lane = static_cast<uint32_t>(free - ends.begin());
      ends.resize(std::max<size_t>(ends.size(), lane + 1));
      ends[lane] = times.end;
      const uint32_t pid = pidOf(rank, /*isPlanned=*/false), track = kSends + lane;
      slice(pid, track, times, "send", std::string("send ") + stageOf(rank).tensors[transfer.tensor].name,
            messageArgs(rank, "to_rank", transfer, *span));
      if (found != received.end()) {
        arrow("s", pid, track, times.begin, ++arrows);
        arrow("f", pidOf(peerOf(rank, transfer), /*isPlanned=*/false), kReceives,
              std::clamp(times.begin, found->second.begin, found->second.end), arrows);
      }
    }
  }

  void metadata(const char *kind, uint32_t pid, uint32_t track, const std::string &args) {
    begin("M", pid, track);
    text += fmt::format(",\"name\":\"{}\",\"args\":{{{}}}}}", kind, args);
  }

  // The names of a process and of its tracks that have something on them.
  void nameProcess(uint32_t rank, bool isPlanned) {
    const uint32_t pid = pidOf(rank, isPlanned);
    metadata("process_name", pid, 0, "\"name\":" + jsonString(fmt::format("rank {}{}", rank, isPlanned ? " planned" : "")));
    metadata("process_labels", pid, 0,
             fmt::format("\"labels\":\"stage {} of {}, device {}\"", rank / processes, stages.size(), rank % processes));
    metadata("process_sort_index", pid, 0, fmt::format("\"sort_index\":{}", pid));
    static constexpr const char *kNames[] = {"",      "steps",    "programs", "instructions", "asynchronous collectives",
                                             "waits", "receives", "sends"};
    for (uint32_t track : tracks) {
      const std::string name = track <= kSends ? kNames[track] : fmt::format("sends {}", track - kSends + 1);
      metadata("thread_name", pid, track, "\"name\":" + jsonString(name));
      metadata("thread_sort_index", pid, track, fmt::format("\"sort_index\":{}", track));
    }
    tracks.clear();
  }

  void writeRank(uint32_t rank) {
    for (const Span &span : trace.ranks[rank].spans) {
      writeSpan(rank, span);
    }
    writeSends(rank);
    nameProcess(rank, /*isPlanned=*/false);
  }

  void writePlan(uint32_t rank) {
    if (trace.planned.empty()) {
      return;
    }
    for (const PlannedRun &run : trace.planned[rank / processes]) {
      slice(pidOf(rank, /*isPlanned=*/true), kPrograms, {static_cast<int64_t>(run.begin), static_cast<int64_t>(run.end)}, "planned",
            stageOf(rank).programs[run.program].name, runArgs(rank, run.step, run.microBatch));
    }
    nameProcess(rank, /*isPlanned=*/true);
  }

  // What else is to be known.
  std::string facts() const {
    std::string ranks;
    for (uint32_t rank = 0; rank < trace.ranks.size(); ++rank) {
      if (!isShown(rank)) {
        continue;
      }
      const RankTrace &each = trace.ranks[rank];
      const ashlar_rt_variant &variant = stageOf(rank);
      ranks += fmt::format(
          "{}\n{{\"rank\":{},\"stage\":{},\"device\":{},\"arena_bytes\":{},\"slots\":{},\"slot_bytes\":{},\"clock_offset_us\":{},"
          "\"clock_error_us\":{},\"lost_instructions\":{},\"lost_others\":{}}}",
          ranks.empty() ? "" : ",", rank, variant.stage, rank % processes, variant.arena_bytes, slotsOf(variant), variant.slot_bytes,
          microseconds(each.clock.offset), microseconds(each.clock.error), each.lostInstructions, each.lostOthers);
    }
    const char *plan = trace.image->plan;
    return fmt::format(
        "{{\"model\":{},\"target\":{},\"first_step\":{},\"steps\":{},\"micro_batches\":{},\"stages\":{},\"plan\":{},\"ranks\":[{}]}}",
        jsonString(trace.image->model_name), jsonString(trace.image->target), trace.firstStep, trace.steps, trace.microBatches,
        stages.size(), jsonString(plan != nullptr ? plan : ""), ranks);
  }

  // Hands on what was written so far, once that is much.
  Status flush(size_t atLeast) {
    if (text.size() < atLeast) {
      return Status();
    }
    Status status = file.write(text.data(), text.size());
    text.clear();
    return status;
  }

  const Trace &trace;
  OutputFile &file;
  const Stages stages;
  uint32_t processes; // of a stage
  int64_t zero = 0;   // begin of the trace, on rank 0's clock
  std::map<MessageKey, Interval> sent, received;
  std::set<uint32_t> tracks; // of the process that is being written
  uint64_t arrows = 0;
  bool isFirst = true;
  std::string text;
};

} // namespace

Status writeTrace(const Trace &trace, OutputFile &file) {
  return TraceWriter(trace, file).write();
}

} // namespace ashlar::rt
