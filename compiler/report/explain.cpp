// SPDX-License-Identifier: Apache-2.0
//
// LayoutReport -> text.

#include "compiler/report/explain.h"

#include "compiler/report/timeline_text.h"
#include "compiler/report/units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ashlar::report {
namespace {

class Writer {
public:
  explicit Writer(const LayoutReport &report) : report(report) {}

  std::string write() {
    writeTotals();
    size_t number = 0;
    for (const ProgramFact &program : report.mains) {
      for (const CollectiveFact &collective : program.collectives) {
        writeCollective(++number, program, collective);
      }
      for (const TransferFact &transfer : program.sends) {
        writeSend(++number, program, transfer);
      }
    }
    writeVariables();
    return text;
  }

private:
  void line(llvm::StringRef subject, const llvm::Twine &fact) { text += formatv("{0,-12} {1}\n", subject, fact.str()); }

  void writeTotals() {
    int64_t devices = 1, bytes = 0, trainable = 0, largest = 0;
    std::vector<std::string> axes;
    for (const auto &[name, size] : report.mesh) {
      devices *= size;
      axes.push_back(formatv("{0}={1}", name, size));
    }
    for (const VariableFact &variable : report.variables) {
      bytes += variable.owner ? 0 : variable.bytes;
      trainable += variable.isTrainable;
    }
    for (const OwnerFact &owner : report.owners) {
      largest = std::max(largest, owner.bytes);
    }
    line("model", report.model);
    const bool hasStages = !report.stageOps.empty();
    line("mesh",
         (axes.empty() ? "one device" : llvm::join(axes, ", ") + "; " + counted(devices, "device")) + (hasStages ? " a stage" : ""));
    if (report.meshSearch) {
      writeMeshSearch(*report.meshSearch);
    }
    if (report.search) {
      writeSearch(*report.search);
    }
    if (report.gradientSync) {
      writeStrategies("gradients", report.gradientSync->strategies, report.gradientSync->taken);
    }
    if (hasStages) {
      return writeStages();
    }
    for (const ProgramFact &program : llvm::concat<const ProgramFact>(report.mains, report.others)) {
      writeProgram(program);
    }
    line("memory", formatv("{0} and {1} of state, {2} on each device", counted(trainable, "parameter"),
                           counted(static_cast<int64_t>(report.variables.size()) - trainable, "tensor"), bytesText(bytes + largest))
                       .str());
    if (!report.memory.parts.empty()) {
      line("", memoryText(report.memory));
    }
    if (report.order.collectives > 0) {
      line("order", orderText(report.order));
    }
  }

  // One line each; `taken`: the number of one of them.
  void writeStrategies(llvm::StringRef subject, llvm::ArrayRef<StrategyFact> strategies, size_t taken) {
    for (auto [number, strategy] : llvm::enumerate(strategies)) {
      line(number == 0 ? subject : "",
           formatv("{0}: {1} a step {2}, {3} on a device{4}", strategy.name, timeText(strategy.stepPs),
                   strategy.isLowered ? "predicted" : "estimated", bytesText(strategy.bytes), number == taken ? "; taken" : "")
               .str());
    }
  }

  void writeStopped(std::optional<double> seconds) {
    if (seconds) {
      line("", stoppedText(*seconds));
    }
  }

  void writeMeshSearch(const MeshSearchFact &search) {
    constexpr size_t kMostLines = 4;
    writeStrategies("meshes", llvm::ArrayRef(search.meshes).take_front(kMostLines), 0);
    line("", formatv("of {0} that were looked at, {1} fit", search.count, search.meshes.size()).str() +
                 (search.estimated == 0 ? "" : formatv("; they are the best of {0} that were estimated", search.estimated).str()) +
                 (search.left == 0 ? "" : formatv("; {0} more were not (--search-effort)", search.left).str()));
    writeStopped(search.stoppedSeconds);
  }

  void writeSearch(const SearchFact &search) {
    writeStrategies("search", search.strategies, search.taken);
    writeStopped(search.stoppedSeconds);
    if (!search.hasSearched) {
      return line("", "the search's layouts cannot be lowered");
    }
    const double gap = search.costPs == 0 ? 0 : 100.0 * (search.costPs - search.boundPs) / search.costPs;
    line("", search.costPs == search.boundPs ? std::string("no choices cost less, op by op, than the search's")
                                             : formatv("no choices cost {0:f1} % less, op by op, than the search's", gap).str());
    writeRules(search);
    writeRunnersUp(search);
  }

  void writeRules(const SearchFact &search) {
    if (!search.rulesAre) {
      return;
    }
    const char *isShort = search.rulesAre == dist::RuleListKind::Shortest  ? "; no shorter list does"
                          : search.rulesAre == dist::RuleListKind::Minimal ? "; none can be left out"
                                                                           : "";
    line("rules", search.rules.empty() ? std::string("inference leads to these layouts without any")
                                       : counted(search.rules.size(), "rule") + " for mode SEMI_AUTO" + isShort);
    for (const RuleFact &rule : search.rules) {
      line("", rule.text());
    }
    if (search.others > 0) {
      line("", "but for " + counted(search.others, "tensor") +
                   " in nodes and of the backward pass, which no rule names: --save-strategy has all" +
                   (search.rulesMorePs ? "; by rules alone " + changed(*search.rulesMorePs, timeText) + " a step" : ""));
    }
  }

  void writeRunnersUp(const SearchFact &search) {
    for (const RunnerUpFact &other : search.runnersUp) {
      line("instead", formatv("{0}: {1}: {2} a step, {3} on a device", other.block, other.differs, changed(other.morePs, timeText),
                              changed(other.moreBytes, [](uint64_t bytes) { return bytesText(bytes); })));
    }
  }

  // Returns "1.2 ms more", "as much", "3.4 MB less".
  template <typename Text> static std::string changed(int64_t difference, Text text) {
    return difference == 0 ? "as much" : text(std::abs(difference)) + (difference > 0 ? " more" : " less");
  }

  void writeOverlap(const ProgramFact &program) {
    int64_t count = 0, hiddenPs = 0;
    for (const CollectiveFact &fact : program.collectives) {
      count += fact.runsBeside;
      hiddenPs += fact.hiddenPs;
    }
    if (count > 0) {
      line("", formatv("{0} of {1} overlap computation, which hides {2}", count, counted(program.collectives.size(), "collective"),
                       timeText(hiddenPs))
                   .str());
    }
  }

  void writeProgram(const ProgramFact &program) {
    line(program.name, program.sum.count == 0
                           ? "no communication"
                           : counted(program.sum.count, "collective") + ", " + sent(program.sum.bytes, program.sum.timePs));
    if (report.hasRates && program.lowered) {
      line("", (report.pipeline ? predictionOf(program) : timeText(*program.lowered->computePs) + " of computing predicted") + ", with " +
                   bytesText(program.lowered->temporaryBytes) + " of intermediate values");
    }
    writeOverlap(program);
    if (program.transposes > 0) {
      line("", formatv("{0} to another order of dims in memory, {1}", counted(program.transposes, "transpose"),
                       bytesText(program.transposedBytes))
                   .str());
    }
  }

  // The step, what crosses, and one part a stage. What follows of the tables is missing where the program was not lowered.
  void writeStages() {
    if (report.pipeline) {
      line("pipeline", stepText(*report.pipeline));
      for (const std::string &drawn : timelineLines(*report.pipeline)) {
        line("", drawn);
      }
      for (const std::string &crossing : crossingLines(*report.pipeline)) {
        line("crosses", crossing);
      }
    }
    for (auto [stage, ops] : llvm::enumerate(report.stageOps)) {
      text += formatv("\nstage {0}: {1}\n", stage, firstFew(ops, ", ", /*last=*/3));
      for (const ProgramFact &program : llvm::concat<const ProgramFact>(report.mains, report.others)) {
        if (program.stage == static_cast<int64_t>(stage)) {
          writeProgram(program);
        }
      }
      if (report.pipeline) {
        const StageFacts &facts = report.pipeline->stages[stage];
        line("timeline", sharesText(*report.pipeline, stage));
        line("memory", slotsText(facts));
        line("", memoryText(facts.memory));
        if (facts.order.collectives > 0) {
          line("order", orderText(facts.order));
        }
      }
    }
  }

  // What the tables say of a program: how long a run of it takes, and how often a step runs it.
  std::string predictionOf(const ProgramFact &program) {
    std::string text = timeText(*program.lowered->timePs) + " a run predicted";
    for (const StageProgramFact &fact : report.pipeline->stages[*program.stage].programs) {
      text += fact.name == program.name ? ", " + timesText(fact.runs) + " a step" : "";
    }
    return text;
  }

  // Times mean something only where the links are known.
  std::string sent(int64_t bytes, int64_t timePs) {
    return bytesText(bytes) + " sent by each device" + (report.hasCosts ? ", " + timeText(timePs) + " predicted" : "");
  }

  std::string planText(const PlanFact &plan) {
    return plan.steps + ": " + bytesText(plan.bytes) + (report.hasCosts ? ", " + timeText(plan.timePs) : "");
  }

  void writeCollective(size_t number, const ProgramFact &program, const CollectiveFact &fact) {
    std::string shapes = fact.operand == fact.result ? fact.operand : fact.operand + " -> " + fact.result;
    std::string place = program.stage ? formatv("stage {0}, {1}: ", *program.stage, program.name).str() : "";
    text +=
        formatv("\n{0}. {1}{2}{3} over {4} ({5}): {6}; {7}\n", number, place, fact.kind, fact.reduction.empty() ? "" : " " + fact.reduction,
                llvm::join(fact.axes, "+"), counted(fact.groupSize, "device"), sent(fact.bytes, fact.timePs), shapes);
    detail("cause", fact.cause);
    if (fact.runs > 1) {
      detail("repeated", std::to_string(fact.runs) + " times, in a loop");
    }
    if (fact.f32Bytes > 0) {
      detail("type", fact.type + "; in f32 " + sent(fact.f32Bytes, fact.f32Ps));
    }
    if (fact.runsBeside) {
      detail("overlap", timeText(fact.hiddenPs) + " of it hidden by computation");
    }
    if (!fact.fusion.empty()) {
      detail("fusion", fact.fusion + ": " + counted(fact.tensors, "tensor"));
    }
    for (const ReasonFact &reason : fact.reasons) {
      detail("tensor", reason.tensor);
      detail("made by", reason.producer);
      detail("  as", reason.from);
      detail("wanted by", firstFew(reason.consumers, ", "));
      detail("  as", reason.to);
      if (!reason.sources.empty()) {
        detail("because of", firstFew(reason.sources, "; "));
      }
      detail("plan", planText(reason.plan));
      if (report.hasCosts && reason.plan.leastPs < reason.plan.timePs) { // not all ways were looked at
        detail("  at best", timeText(reason.plan.leastPs) + " by any way");
      }
      if (reason.runnerUp) {
        detail("instead of", planText(*reason.runnerUp));
      }
    }
  }

  void writeSend(size_t number, const ProgramFact &program, const TransferFact &fact) {
    std::string stages = llvm::join(llvm::map_range(fact.to, [](int64_t stage) { return std::to_string(stage); }), " and ");
    text += formatv("\n{0}. stage {1}, {2}: send of {3} to stage {4}; {5}\n", number, *program.stage, program.name, bytesText(fact.bytes),
                    stages, fact.type);
    detail("cause", fact.cause);
  }

  void detail(llvm::StringRef subject, const llvm::Twine &fact) { text += formatv("     {0,-11} {1}\n", subject, fact.str()); }

  void writeVariables() {
    if (report.variables.empty()) {
      return;
    }
    std::vector<std::vector<std::string>> rows = {{"name", "tensor", "layout", "on a device", "bytes", "fusion", "because of"}};
    for (const VariableFact &variable : report.variables) {
      rows.push_back({variable.name, variable.global, variable.layout, variable.local, bytesText(variable.bytes),
                      variable.isTrainable ? std::to_string(variable.fusionId) : "-", variable.origin});
    }
    if (!report.stageOps.empty()) {
      rows.front().insert(rows.front().begin(), "stage");
      for (auto [row, variable] : llvm::zip_equal(llvm::drop_begin(rows), report.variables)) {
        row.insert(row.begin(), variable.stage ? std::to_string(*variable.stage) : "");
      }
    }
    text += "\nparameters and state\n" + tableText(rows);
    writeWhole();
    writeOwners();
  }

  void writeOwners() {
    std::vector<std::vector<std::string>> rows = {{"device", "state", "parameters"}};
    for (const OwnerFact &owner : report.owners) {
      rows.push_back({std::to_string(owner.device), bytesText(owner.bytes), llvm::join(owner.parameters, ", ")});
    }
    if (!report.owners.empty()) {
      text += "\nowners of parameters: each alone keeps their state and updates them\n" + tableText(rows);
    }
  }

  void writeWhole() {
    std::vector<std::vector<std::string>> rows;
    for (const VariableFact &variable : report.variables) {
      if (!variable.replicated.empty()) {
        rows.push_back({variable.name, variable.replicated});
      }
    }
    if (!rows.empty()) {
      text += "\nparameters that optimizer_parallel leaves replicated\n" + tableText(rows);
    }
  }

  const LayoutReport &report;
  std::string text;
};

} // namespace

std::string explainText(const LayoutReport &report) {
  return Writer(report).write();
}

} // namespace ashlar::report
