// SPDX-License-Identifier: Apache-2.0
//
// A stage runs on until it needs a message that was not sent, or room that was not made; what another stage does then wakes it.

#include "passes/analysis/schedule/timeline.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>
#include <deque>
#include <map>
#include <tuple>

namespace ashlar::analysis {
namespace {

constexpr size_t kNone = SIZE_MAX;

// Messages, in the order in which they are sent, which is that in which they are received.
struct Channel {
  std::vector<int64_t> sentPs, takenPs;
  std::vector<size_t> fromRuns;
  std::vector<size_t> lastOfSlot; // of the sender: the message that went out of it last
};

class TimelineSimulator {
public:
  explicit TimelineSimulator(llvm::ArrayRef<StageWork> stages) : stages(stages), now(stages.size(), 0) {
    timeline.stages.resize(stages.size());
    ends.resize(stages.size());
    std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> numbers; // by {from, to, channel}
    auto number = [&](int64_t from, int64_t to, int64_t channel) {
      return numbers.try_emplace({from, to, channel}, numbers.size()).first->second;
    };
    for (auto [index, stage] : llvm::enumerate(stages)) {
      const auto self = static_cast<int64_t>(index);
      for (const TimedProgram &program : stage.programs) {
        Ends &own = ends[index].emplace_back();
        for (const ChannelEnd &end : program.receives) {
          own.receives.push_back(number(end.stage, self, end.channel));
        }
        for (const ChannelEnd &end : program.sends) {
          own.sends.push_back(number(self, end.stage, end.channel));
        }
      }
    }
    channels.resize(numbers.size());
    for (const auto &[key, channel] : numbers) {
      channels[channel].lastOfSlot.assign(stages[std::get<0>(key)].slots, kNone);
    }
  }

  Timeline simulate() {
    std::deque<size_t> awake;
    llvm::append_range(awake, llvm::seq<size_t>(0, stages.size()));
    while (!awake.empty()) {
      size_t stage = awake.front();
      awake.pop_front();
      while (canRun(stage)) {
        const TimedProgram &program = programOf(stage);
        run(stage);
        for (const ChannelEnd &end : llvm::concat<const ChannelEnd>(program.sends, program.receives)) {
          awake.push_back(end.stage);
        }
      }
    }
    for (auto [stage, work] : llvm::zip_equal(timeline.stages, stages)) {
      assert(stage.runs.size() == work.order.size() && "the stages wait for each other");
      timeline.timePs = stage.runs.empty() ? timeline.timePs : std::max(timeline.timePs, stage.runs.back().endPs);
    }
    for (StageTimeline &stage : timeline.stages) {
      stage.waitPs = timeline.timePs - stage.computePs - stage.receivePs;
    }
    return std::move(timeline);
  }

private:
  // Of a program: indices of channels.
  struct Ends {
    llvm::SmallVector<size_t> receives, sends;
  };

  size_t at(size_t stage) const { return timeline.stages[stage].runs.size(); }
  const OrderedRun &next(size_t stage) const { return stages[stage].order[at(stage)]; }
  const TimedProgram &programOf(size_t stage) const { return stages[stage].programs[next(stage).program]; }

  // Returns the message that the next run of a stage has to be rid of before it can send on the channel again.
  size_t &lastOfSlot(size_t stage, Channel &channel) { return channel.lastOfSlot[next(stage).microBatch % stages[stage].slots]; }

  bool canRun(size_t stage) {
    if (at(stage) == stages[stage].order.size()) {
      return false;
    }
    const Ends &own = ends[stage][next(stage).program];
    return llvm::all_of(own.receives, [&](size_t channel) { return channels[channel].sentPs.size() > channels[channel].takenPs.size(); }) &&
           llvm::all_of(own.sends, [&](size_t channel) {
             size_t last = lastOfSlot(stage, channels[channel]);
             return last == kNone || last < channels[channel].takenPs.size();
           });
  }

  void run(size_t stage) {
    const OrderedRun ordered = next(stage);
    const TimedProgram &program = programOf(stage);
    const Ends &own = ends[stage][ordered.program];
    StageTimeline &line = timeline.stages[stage];
    const size_t number = line.runs.size();
    int64_t time = now[stage], receivePs = 0;
    for (size_t index : own.sends) {
      size_t last = lastOfSlot(stage, channels[index]);
      time = last == kNone ? time : std::max(time, channels[index].takenPs[last]);
    }
    for (auto [index, end] : llvm::zip_equal(own.receives, program.receives)) {
      Channel &channel = channels[index];
      timeline.messages.push_back({end.stage, static_cast<int64_t>(stage), channel.fromRuns[channel.takenPs.size()], number});
      time = std::max(time, channel.sentPs[channel.takenPs.size()]) + end.timePs;
      receivePs += end.timePs;
      channel.takenPs.push_back(time);
    }
    const int64_t endPs = time + program.timePs;
    for (size_t index : own.sends) {
      Channel &channel = channels[index];
      lastOfSlot(stage, channel) = channel.sentPs.size();
      channel.sentPs.push_back(endPs);
      channel.fromRuns.push_back(number);
    }
    now[stage] = endPs;
    line.computePs += program.timePs;
    line.receivePs += receivePs;
    line.runs.push_back({ordered.program, ordered.microBatch, receivePs, time, endPs}); // last: it moves on
  }

  llvm::ArrayRef<StageWork> stages;
  std::vector<Channel> channels;
  std::vector<std::vector<Ends>> ends; // by stage and program
  std::vector<int64_t> now;            // by stage: when it has ended what it ran
  Timeline timeline;
};

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

Timeline playStages(llvm::ArrayRef<StageWork> stages) {
  return TimelineSimulator(stages).simulate();
}

} // namespace ashlar::analysis
