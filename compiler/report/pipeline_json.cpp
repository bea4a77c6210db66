// SPDX-License-Identifier: Apache-2.0
//
// Pipeline -> JSON.

#include "compiler/report/pipeline_json.h"

#include "compiler/report/json_parts.h"

#include "llvm/ADT/STLExtras.h"

namespace ashlar::report {
namespace {

using llvm::json::OStream;

void writeCrossing(OStream &out, const CrossingFact &crossing) {
  out.attribute("name", jsonText(crossing.name));
  out.attribute("from", crossing.from);
  out.attribute("to", crossing.to);
  out.attribute("sender", crossing.sender);
  out.attribute("receiver", crossing.receiver);
  out.attribute("bytes", crossing.bytes);
  out.attribute("time_ns", nanoseconds(crossing.timePs));
  out.attribute("messages", crossing.messages);
}

void writeProgram(OStream &out, const StageProgramFact &program) {
  out.attribute("name", program.name);
  out.attribute("runs", program.runs);
  out.attribute("predicted_ns", nanoseconds(program.timePs));
}

void writeRun(OStream &out, const StageFacts &stage, const TimelineRun &run) {
  out.attribute("program", stage.programs[run.program].name);
  out.attribute("micro_batch", run.microBatch);
  out.attribute("receive_ns", nanoseconds(run.receivePs));
  out.attribute("begin_ns", nanoseconds(run.beginPs));
  out.attribute("end_ns", nanoseconds(run.endPs));
}

void writeStage(OStream &out, const PipelineFacts &facts, size_t number, const std::vector<std::string> &ops) {
  const StageFacts &stage = facts.stages[number];
  const StageTimeline &line = facts.timeline.stages[number];
  out.attribute("stage", static_cast<int64_t>(number));
  out.attributeArray("ops", [&] {
    for (const std::string &path : ops) {
      out.value(jsonText(path));
    }
  });
  out.attributeArray("programs", [&] {
    for (const StageProgramFact &program : stage.programs) {
      out.object([&] { writeProgram(out, program); });
    }
  });
  out.attribute("slots", stage.slots);
  out.attribute("slot_bytes", stage.slotBytes);
  out.attribute("fixed_bytes", stage.fixedBytes());
  out.attributeObject("memory", [&] { writeMemory(out, stage.memory); });
  out.attributeObject("order", [&] { writeOrder(out, stage.order); });
  out.attribute("compute_ns", nanoseconds(line.computePs));
  out.attribute("receive_ns", nanoseconds(line.receivePs));
  out.attribute("wait_ns", nanoseconds(line.waitPs));
  out.attribute("bubble", facts.timeline.bubble(number));
  out.attributeArray("runs", [&] {
    for (const TimelineRun &run : line.runs) {
      out.object([&] { writeRun(out, stage, run); });
    }
  });
}

} // namespace

void writePipeline(OStream &out, const PipelineFacts &facts, llvm::ArrayRef<std::vector<std::string>> ops) {
  out.attribute("micro_batches", facts.microBatches);
  out.attribute("schedule", facts.schedule);
  out.attribute("step_ns", nanoseconds(facts.timeline.timePs));
  out.attribute("bubble", facts.timeline.bubble());
  out.attributeArray("crossings", [&] {
    for (const CrossingFact &crossing : facts.crossings) {
      out.object([&] { writeCrossing(out, crossing); });
    }
  });
  out.attributeArray("stages", [&] {
    for (size_t number = 0; number < facts.stages.size(); ++number) {
      out.object([&] { writeStage(out, facts, number, ops[number]); });
    }
  });
}

} // namespace ashlar::report
