// SPDX-License-Identifier: Apache-2.0
//
// Pipeline -> text.

#include "compiler/report/timeline_text.h"

#include "compiler/report/units.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using llvm::formatv;

namespace ashlar::report {
namespace {

constexpr int64_t kColumns = 96;
constexpr llvm::StringLiteral kMicroBatches = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr size_t kMostRows = 24;

double shareOf(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// The rows of a stage, one a program.
class Rows {
public:
  Rows(const PipelineFacts &facts, size_t stage)
      : rows(facts.stages[stage].programs.size(), std::string(kColumns, ' ')), facts(facts), stage(facts.stages[stage]) {
    for (const TimelineRun &run : facts.timeline.stages[stage].runs) {
      draw(run);
    }
  }

  std::vector<std::string> rows;

private:
  // Fills the columns whose middle lies in the time; returns false where there is none.
  bool fill(std::string &row, int64_t beginPs, int64_t endPs, char letter) {
    auto columnOf = [&](int64_t timePs) { return static_cast<int64_t>(shareOf(timePs, facts.timeline.timePs) * kColumns + 0.5); };
    std::fill(row.begin() + columnOf(beginPs), row.begin() + columnOf(endPs), letter);
    return columnOf(beginPs) < columnOf(endPs);
  }

  void draw(const TimelineRun &run) {
    std::string &row = rows[run.program];
    const char letter = stage.programs[run.program].runs == 1 && facts.microBatches > 1 ? '*' : kMicroBatches[run.microBatch];
    fill(row, run.beginPs - run.receivePs, run.beginPs, '<');
    if (!fill(row, run.beginPs, run.endPs, letter)) { // too short: the column that it lies in, so that no run is lost
      auto column = static_cast<size_t>(shareOf(run.beginPs, facts.timeline.timePs) * kColumns);
      char &place = row[std::min<size_t>(column, kColumns - 1)];
      place = place == ' ' ? letter : place;
    }
  }

  const PipelineFacts &facts;
  const StageFacts &stage;
};

} // namespace

std::string shareText(double share) {
  return formatv("{0:F1} %", 100 * share);
}

std::string stepText(const PipelineFacts &facts) {
  return formatv("{0}, {1} micro-batches, {2}; a step takes {3} predicted; a stage waits {4} on average",
                 counted(facts.stages.size(), "stage"), facts.microBatches, facts.schedule, timeText(facts.timeline.timePs),
                 shareText(facts.timeline.bubble()));
}

std::string sharesText(const PipelineFacts &facts, size_t stage) {
  const Timeline &timeline = facts.timeline;
  const StageTimeline &line = timeline.stages[stage];
  auto part = [&](int64_t timePs) { return timeText(timePs) + " (" + shareText(shareOf(timePs, timeline.timePs)) + ")"; };
  int64_t sent = 0;
  for (const CrossingFact &crossing : facts.crossings) {
    sent += crossing.from == static_cast<int64_t>(stage) ? crossing.bytes * crossing.messages : 0;
  }
  return formatv("computes {0}, receives {1}, waits {2}; sends {3} a step; at most {4} a rank", part(line.computePs), part(line.receivePs),
                 part(line.waitPs), bytesText(sent), bytesText(facts.stages[stage].memory.bytes()));
}

std::string slotsText(const StageFacts &stage) {
  return formatv("{0} of {1} and {2} besides", counted(stage.slots, "slot"), bytesText(stage.slotBytes), bytesText(stage.fixedBytes()));
}

std::string timesText(int64_t count) {
  return count == 1 ? "once" : formatv("{0} times", count).str();
}

std::vector<std::string> crossingLines(const PipelineFacts &facts) {
  struct Group {
    std::vector<std::string> names;
    int64_t bytes = 0, timePs = 0, messages = 0;
  };
  llvm::MapVector<std::string, Group, std::map<std::string, unsigned>> groups; // by the programs at both ends
  for (const CrossingFact &crossing : facts.crossings) {
    Group &group = groups[formatv("stage {0} ({1}) to stage {2} ({3})", crossing.from, crossing.sender, crossing.to, crossing.receiver)];
    group.names.push_back(crossing.name);
    group.bytes += crossing.bytes;
    group.timePs += crossing.timePs;
    group.messages = crossing.messages; // all go when the program has run
  }
  std::vector<std::string> lines;
  for (const auto &[ends, group] : groups) {
    lines.push_back(formatv("{0} a step from {1}: {2} in {3}: {4}", timesText(group.messages), ends, bytesText(group.bytes),
                            timeText(group.timePs), firstFew(group.names, ", ")));
  }
  return lines;
}

std::vector<std::string> timelineLines(const PipelineFacts &facts) {
  size_t count = 0, width = 0;
  for (const StageFacts &stage : facts.stages) {
    count += stage.programs.size();
    for (const StageProgramFact &program : stage.programs) {
      width = std::max(width, program.name.size());
    }
  }
  if (count > kMostRows || facts.microBatches > static_cast<int64_t>(kMicroBatches.size()) || facts.timeline.timePs == 0) {
    return {};
  }
  std::vector<std::string> lines = {formatv("a column is {0}: a micro-batch by its number or letter, * once a step, < receiving",
                                            timeText(facts.timeline.timePs / kColumns))};
  for (size_t stage = 0; stage < facts.stages.size(); ++stage) {
    Rows drawn(facts, stage);
    for (auto [number, program] : llvm::enumerate(facts.stages[stage].programs)) {
      std::string subject = number == 0 ? formatv("stage {0}", stage).str() : "";
      std::string name = program.name + std::string(width - program.name.size(), ' ');
      std::string line = formatv("{0,-9} {1} {2}", subject, name, drawn.rows[number]);
      lines.push_back(llvm::StringRef(line).rtrim().str());
    }
  }
  return lines;
}

} // namespace ashlar::report
