// SPDX-License-Identifier: Apache-2.0
//
// Times of stages -> their runs, and who sent to whom.

#include "compiler/report/timeline.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <tuple>

namespace ashlar::report {
namespace {

// Returns the runs of a stage that have a channel among these ends, in their order.
std::vector<size_t> runsWith(const rt::TimedStep &step, uint32_t stage, uint32_t channel,
                             std::vector<rt::ChannelUse> rt::TimedProgram::*ends) {
  std::vector<size_t> found;
  for (auto [number, run] : llvm::enumerate(step.runs[stage])) {
    const std::vector<rt::ChannelUse> &uses = step.programs[stage][run.program].*ends;
    found.insert(found.end(), llvm::count_if(uses, [&](const rt::ChannelUse &use) { return use.channel == channel; }), number);
  }
  return found;
}

} // namespace

double Timeline::bubble(size_t stage) const {
  return timePs == 0 ? 0 : static_cast<double>(stages[stage].waitPs) / static_cast<double>(timePs);
}

double Timeline::bubble() const {
  double sum = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    sum += bubble(stage);
  }
  return stages.empty() ? 0 : sum / static_cast<double>(stages.size());
}

Timeline makeTimeline(const rt::TimedStep &step, const std::vector<rt::StageMessages> &channels) {
  Timeline timeline;
  for (const rt::ActorTimes &times : rt::playStagedStep(step, channels)) {
    assert(times.isDone && "the stages wait for each other");
    StageTimeline &line = timeline.stages.emplace_back();
    line.computePs = static_cast<int64_t>(times.computePs);
    line.receivePs = static_cast<int64_t>(times.receivePs);
    for (const rt::SimulatedRun &run : times.runs) {
      line.runs.push_back({run.program, run.microBatch, static_cast<int64_t>(run.receivePs), static_cast<int64_t>(run.begin),
                           static_cast<int64_t>(run.end)});
    }
    timeline.timePs = std::max(timeline.timePs, static_cast<int64_t>(times.endPs));
  }
  for (StageTimeline &line : timeline.stages) {
    line.waitPs = timeline.timePs - line.computePs - line.receivePs;
  }
  for (auto [channel, ends] : llvm::enumerate(channels)) {
    const auto number = static_cast<uint32_t>(channel);
    for (auto [sender, receiver] : llvm::zip_equal(runsWith(step, ends.from, number, &rt::TimedProgram::sends),
                                                   runsWith(step, ends.to, number, &rt::TimedProgram::receives))) {
      timeline.messages.push_back({ends.from, ends.to, sender, receiver});
    }
  }
  auto place = [&](const TimelineMessage &message) {
    return std::tuple(timeline.stages[message.to].runs[message.toRun].beginPs, message.to, message.from, message.fromRun);
  };
  llvm::sort(timeline.messages, [&](const TimelineMessage &a, const TimelineMessage &b) { return place(a) < place(b); });
  return timeline;
}

} // namespace ashlar::report
