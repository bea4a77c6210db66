// SPDX-License-Identifier: Apache-2.0
//
// LayoutReport -> JSON, by LLVM's writer, which keeps the order in which fields are written.

#include "compiler/report/report_json.h"

#include "compiler/report/json_parts.h"
#include "compiler/report/page/page_json.h"
#include "compiler/report/pipeline_json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

namespace ashlar::report {
namespace {

using llvm::json::OStream;

void writeTexts(OStream &out, llvm::StringRef name, const std::vector<std::string> &texts) {
  out.attributeArray(name, [&] {
    for (const std::string &text : texts) {
      out.value(jsonText(text));
    }
  });
}

void writePlan(OStream &out, const PlanFact &plan) {
  out.attribute("steps", plan.steps);
  out.attribute("bytes", plan.bytes);
  out.attribute("time_ns", nanoseconds(plan.timePs));
  out.attribute("least_time_ns", nanoseconds(plan.leastPs));
}

void writeReason(OStream &out, const ReasonFact &reason) {
  out.attribute("producer", jsonText(reason.producer));
  writeTexts(out, "consumers", reason.consumers);
  writeTexts(out, "origins", reason.origins);
  out.attribute("tensor", reason.tensor);
  out.attribute("from", reason.from);
  out.attribute("to", reason.to);
  out.attributeObject("plan", [&] { writePlan(out, reason.plan); });
  if (reason.runnerUp) {
    out.attributeObject("runner_up", [&] { writePlan(out, *reason.runnerUp); });
  }
}

void writeStage(OStream &out, std::optional<int64_t> stage) {
  if (stage) {
    out.attribute("stage", *stage);
  }
}

void writeCollective(OStream &out, const ProgramFact &program, const CollectiveFact &fact) {
  if (program.stage) { // there are several main programs
    writeStage(out, program.stage);
    out.attribute("program", jsonText(program.name));
  }
  out.attribute("kind", fact.kind);
  out.attribute("reduction", fact.reduction);
  writeTexts(out, "axes", fact.axes);
  out.attribute("group_size", fact.groupSize);
  out.attribute("runs", fact.runs);
  out.attribute("operand", fact.operand);
  out.attribute("result", fact.result);
  out.attribute("type", fact.type);
  out.attribute("bytes", fact.bytes);
  out.attribute("time_ns", nanoseconds(fact.timePs));
  if (fact.f32Bytes > 0) {
    out.attribute("f32_bytes", fact.f32Bytes);
    out.attribute("f32_time_ns", nanoseconds(fact.f32Ps));
  }
  out.attribute("hidden_ns", nanoseconds(fact.hiddenPs));
  out.attribute("cause", jsonText(fact.cause));
  writeTexts(out, "members", fact.causes);
  out.attribute("tensors", fact.tensors);
  out.attribute("fusion", fact.fusion);
  out.attribute("fusion_id", fact.fusionId);
  writeColumn(out, "modules", std::vector<int64_t>(fact.modules.begin(), fact.modules.end()));
  out.attributeArray("reasons", [&] {
    for (const ReasonFact &reason : fact.reasons) {
      out.object([&] { writeReason(out, reason); });
    }
  });
}

void writeSend(OStream &out, const ProgramFact &program, const TransferFact &fact) {
  writeStage(out, program.stage);
  out.attribute("program", jsonText(program.name));
  out.attributeArray("to", [&] { llvm::for_each(fact.to, [&](int64_t stage) { out.value(stage); }); });
  out.attribute("type", fact.type);
  out.attribute("bytes", fact.bytes);
  out.attribute("cause", jsonText(fact.cause));
}

void writeTotals(OStream &out, const ProgramFact &program) {
  out.attribute("name", jsonText(program.name));
  out.attribute("role", program.role);
  out.attribute("chunk", program.chunk);
  out.attribute("round", program.round);
  out.attribute("joined", program.isJoined);
  writeStage(out, program.stage);
  out.attribute("collectives", program.sum.count);
  out.attribute("bytes", program.sum.bytes);
  out.attribute("time_ns", nanoseconds(program.sum.timePs));
  if (program.transposes > 0) {
    out.attribute("transposes", program.transposes);
    out.attribute("transposed_bytes", program.transposedBytes);
  }
  if (program.lowered) {
    out.attribute("temporary_bytes", program.lowered->temporaryBytes);
    if (program.lowered->timePs) {
      out.attribute("compute_ns", nanoseconds(*program.lowered->computePs));
      out.attribute("predicted_ns", nanoseconds(*program.lowered->timePs));
    }
  }
}

void writeVariable(OStream &out, const VariableFact &variable) {
  out.attribute("name", jsonText(variable.name));
  writeStage(out, variable.stage);
  out.attribute("trainable", variable.isTrainable);
  out.attribute("global", variable.global);
  out.attribute("layout", variable.layout);
  out.attribute("local", variable.local);
  out.attribute("fusion_id", variable.fusionId);
  out.attribute("bytes", variable.bytes);
  out.attribute("origin", jsonText(variable.origin));
  out.attribute("module", variable.module);
  if (!variable.replicated.empty()) {
    out.attribute("replicated", variable.replicated);
  }
  if (variable.owner) {
    out.attribute("owner", *variable.owner);
  }
}

void writeOwner(OStream &out, const OwnerFact &owner) {
  out.attribute("device", owner.device);
  out.attribute("bytes", owner.bytes);
  writeTexts(out, "parameters", owner.parameters);
}

// What was taken by the search: the rules that lead to it, and what it was against.
void writeSearchParts(OStream &out, const SearchFact &search) {
  out.attributeArray("rules", [&] {
    for (const RuleFact &rule : search.rules) {
      out.object([&] {
        out.attribute("match", jsonText(rule.match));
        out.attribute("layout", rule.layout);
        out.attribute("priority", rule.priority);
      });
    }
  });
  out.attribute("rules_are", search.rulesAre ? dist::stringifyRuleListKind(*search.rulesAre) : "");
  out.attribute("others", search.others);
  if (search.rulesMorePs) {
    out.attribute("rules_more_ns", nanoseconds(*search.rulesMorePs));
  }
  out.attributeArray("runners_up", [&] {
    for (const RunnerUpFact &other : search.runnersUp) {
      out.object([&] {
        out.attribute("block", jsonText(other.block));
        out.attribute("differs", jsonText(other.differs));
        out.attribute("more_ns", nanoseconds(other.morePs));
        out.attribute("more_bytes", other.moreBytes);
      });
    }
  });
}

void writeCommunication(OStream &out, const LayoutReport &report) {
  out.attributeArray("collectives", [&] {
    for (const ProgramFact &program : report.mains) {
      for (const CollectiveFact &fact : program.collectives) {
        out.object([&] { writeCollective(out, program, fact); });
      }
    }
  });
  if (report.stageOps.empty()) {
    return;
  }
  out.attributeArray("sends", [&] {
    for (const ProgramFact &program : report.mains) {
      for (const TransferFact &fact : program.sends) {
        out.object([&] { writeSend(out, program, fact); });
      }
    }
  });
}

// Writes the modules, the ops, and the instructions of the main programs.
void writeSteps(OStream &out, const LayoutReport &report) {
  std::map<std::string, std::vector<int64_t>> collectives; // by the keys of their reasons
  int64_t number = 0;
  for (const ProgramFact &program : report.mains) {
    for (const CollectiveFact &fact : program.collectives) {
      for (const std::string &key : fact.keys) {
        collectives[key].push_back(number);
      }
      ++number;
    }
  }
  writeGraph(out, report.graph, [&](const std::string &key) {
    auto found = collectives.find(key);
    return found == collectives.end() ? std::vector<int64_t>() : found->second;
  });
  out.attributeArray("instructions", [&] {
    int64_t first = 0;
    for (const ProgramFact &program : report.mains) {
      if (program.instructions) {
        out.object([&] {
          out.attribute("program", jsonText(program.name));
          writeStage(out, program.stage);
          writeInstructions(out, *program.instructions, first);
        });
      }
      first += static_cast<int64_t>(program.collectives.size());
    }
  });
  if (!report.stepRuns.empty()) {
    out.attributeObject("step", [&] {
      out.attribute("step_ns", nanoseconds(report.stepRuns.back().endPs));
      out.attributeArray("runs", [&] {
        for (const StepRunFact &run : report.stepRuns) {
          out.object([&] {
            out.attribute("program", jsonText(run.program));
            out.attribute("micro_batch", run.microBatch);
            out.attribute("begin_ns", nanoseconds(run.beginPs));
            out.attribute("end_ns", nanoseconds(run.endPs));
          });
        }
      });
    });
  }
}

// Writes the mesh, the ranks of its points where the job gives them, and the rules of the job.
void writeJob(OStream &out, const LayoutReport &report) {
  out.attributeArray("mesh", [&] {
    for (const auto &axis : report.mesh) {
      out.object([&] {
        out.attribute("axis", axis.first);
        out.attribute("size", axis.second);
      });
    }
  });
  if (!report.deviceIds.empty()) {
    writeColumn(out, "device_ids", report.deviceIds);
  }
  out.attributeArray("job_rules", [&] {
    for (const JobRuleFact &rule : report.jobRules) {
      out.object([&] {
        out.attribute("origin", jsonText(rule.origin));
        out.attribute("text", jsonText(rule.text));
      });
    }
  });
}

void writeStrategies(OStream &out, llvm::StringRef name, llvm::ArrayRef<StrategyFact> strategies) {
  out.attributeArray(name, [&] {
    for (const StrategyFact &strategy : strategies) {
      out.object([&] {
        out.attribute("name", strategy.name);
        out.attribute("lowered", strategy.isLowered);
        out.attribute("step_ns", nanoseconds(strategy.stepPs));
        out.attribute("bytes", strategy.bytes);
      });
    }
  });
}

void writeStopped(OStream &out, std::optional<double> seconds) {
  if (seconds) {
    out.attribute("stopped_after_s", *seconds);
  }
}

void writeReport(OStream &out, const LayoutReport &report) {
  out.attribute("model", jsonText(report.model));
  writeJob(out, report);
  if (report.meshSearch) {
    out.attributeObject("mesh_search", [&] {
      writeStrategies(out, "meshes", report.meshSearch->meshes);
      out.attribute("looked_at", static_cast<int64_t>(report.meshSearch->count));
      out.attribute("not_looked_at", static_cast<int64_t>(report.meshSearch->left));
      if (report.meshSearch->estimated > 0) {
        out.attribute("estimated", static_cast<int64_t>(report.meshSearch->estimated));
      }
      writeStopped(out, report.meshSearch->stoppedSeconds);
    });
  }
  if (report.search) {
    out.attributeObject("search", [&] {
      writeStrategies(out, "strategies", report.search->strategies);
      out.attribute("taken", report.search->strategies[report.search->taken].name);
      out.attribute("cost_ns", nanoseconds(report.search->costPs));
      out.attribute("bound_ns", nanoseconds(report.search->boundPs));
      writeStopped(out, report.search->stoppedSeconds);
      writeSearchParts(out, *report.search);
    });
  }
  if (report.gradientSync) {
    out.attributeObject("gradient_sync", [&] {
      writeStrategies(out, "strategies", report.gradientSync->strategies);
      out.attribute("taken", report.gradientSync->strategies[report.gradientSync->taken].name);
    });
  }
  out.attribute("costs_known", report.hasCosts);
  out.attribute("rates_known", report.hasRates);
  if (!report.memory.parts.empty()) {
    out.attributeObject("memory", [&] { writeMemory(out, report.memory); });
    if (report.stageOps.empty()) { // else each stage has its own
      out.attributeObject("order", [&] { writeOrder(out, report.order); });
    }
  }
  out.attributeArray("programs", [&] {
    for (const ProgramFact &program : llvm::concat<const ProgramFact>(report.mains, report.others)) {
      out.object([&] { writeTotals(out, program); });
    }
  });
  writeCommunication(out, report);
  out.attributeArray("variables", [&] {
    for (const VariableFact &variable : report.variables) {
      out.object([&] { writeVariable(out, variable); });
    }
  });
  if (!report.owners.empty()) {
    out.attributeArray("owners", [&] {
      for (const OwnerFact &owner : report.owners) {
        out.object([&] { writeOwner(out, owner); });
      }
    });
  }
  if (report.pipeline) {
    out.attributeObject("pipeline", [&] { writePipeline(out, *report.pipeline, report.stageOps); });
  }
  writeSteps(out, report);
}

} // namespace

std::string reportJson(const LayoutReport &report, unsigned indent) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OStream out(stream, indent);
  out.object([&] { writeReport(out, report); });
  stream << "\n";
  return text;
}

} // namespace ashlar::report
