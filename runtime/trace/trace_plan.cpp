// SPDX-License-Identifier: Apache-2.0
//
// All stages take turns: each runs on until it waits for another one. What they wait for are messages, known by {channel, step,
// micro-batch}.

#include "runtime/trace/trace_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ashlar::rt {
namespace {

// {from, to, channel} of a channel, and the number of the micro-batch since the first step.
using Message = std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>;

class StepSimulator {
public:
  StepSimulator(const Stages &stages, const StepRuns &runs, uint64_t steps, uint64_t microBatches)
      : stages(stages), runs(runs), steps(steps), microBatches(microBatches), at(stages.size()), plans(stages.size()) {}

  Status simulate(std::vector<StagePlan> &result) {
    for (bool moves = true; moves;) {
      moves = false;
      for (uint32_t stage = 0; stage < stages.size(); ++stage) {
        while (advance(stage)) {
          moves = true;
        }
      }
    }
    for (uint32_t stage = 0; stage < stages.size(); ++stage) {
      if (plans[stage].size() != steps * runs[stage].size()) {
        return internal("the order of stage {} stands still at run {} of {}", stage, plans[stage].size(), steps * runs[stage].size());
      }
    }
    result = std::move(plans);
    return Status();
  }

private:
  struct Position {
    uint64_t clock = 0;
    std::map<std::pair<uint32_t, uint64_t>, Message> sentFrom; // by channel's sender and slot: what was sent from there last
  };

  const ashlar_rt_program &programOf(uint32_t stage, const ashlar_rt_run &run) const { return stages[stage].programs[run.program]; }

  // Runs the next program of a stage; false when there is none, or it waits.
  bool advance(uint32_t stage) {
    StagePlan &plan = plans[stage];
    if (plan.size() == steps * runs[stage].size()) {
      return false;
    }
    const uint64_t step = plan.size() / runs[stage].size();
    const ashlar_rt_run &run = runs[stage][plan.size() % runs[stage].size()];
    const ashlar_rt_program &program = programOf(stage, run);
    const uint64_t microBatch = step * microBatches + run.micro_batch;
    Position &position = at[stage];
    uint64_t begin = position.clock;
    for (uint32_t i = 0; i < program.num_sends; ++i) {
      const auto last = position.sentFrom.find(place(stage, program.sends[i], microBatch));
      if (last != position.sentFrom.end() && !await(received, last->second, begin)) {
        return false;
      }
    }
    for (uint32_t i = 0; i < program.num_receives; ++i) {
      const ashlar_rt_transfer &transfer = program.receives[i];
      if (!await(offered, {transfer.stage, stage, transfer.channel, microBatch}, begin)) {
        return false;
      }
    }
    position.clock = begin + program.predicted_ns;
    plan.push_back({begin, position.clock, run.program, static_cast<uint32_t>(step), run.micro_batch});
    for (uint32_t i = 0; i < program.num_receives; ++i) {
      received[{program.receives[i].stage, stage, program.receives[i].channel, microBatch}] = begin;
    }
    for (uint32_t i = 0; i < program.num_sends; ++i) {
      const Message message = {stage, program.sends[i].stage, program.sends[i].channel, microBatch};
      offered[message] = position.clock;
      position.sentFrom[place(stage, program.sends[i], microBatch)] = message;
    }
    return true;
  }

  // What a message is sent from: the tensor may go to several stages, each of which has it at a time of its own.
  std::pair<uint32_t, uint64_t> place(uint32_t stage, const ashlar_rt_transfer &transfer, uint64_t microBatch) const {
    return {transfer.channel * stages.size() + transfer.stage, microBatch % slotsOf(stages[stage])};
  }

  // Puts `begin` off until the message is there; false when nobody knows yet when that is.
  static bool await(const std::map<Message, uint64_t> &times, const Message &message, uint64_t &begin) {
    const auto found = times.find(message);
    begin = found == times.end() ? begin : std::max(begin, found->second);
    return found != times.end();
  }

  const Stages &stages;
  const StepRuns &runs;
  const uint64_t steps, microBatches;
  std::vector<Position> at;
  std::map<Message, uint64_t> offered, received; // when
  std::vector<StagePlan> plans;
};

bool isPredicted(const Stages &stages) {
  return std::any_of(stages.begin(), stages.end(), [](const ashlar_rt_variant &stage) {
    return std::any_of(stage.programs, stage.programs + stage.num_programs,
                       [](const ashlar_rt_program &program) { return program.predicted_ns != 0; });
  });
}

} // namespace

Status planSteps(const Stages &stages, const StepRuns &runs, uint64_t steps, uint64_t microBatches, std::vector<StagePlan> &plans) {
  return isPredicted(stages) ? StepSimulator(stages, runs, steps, microBatches).simulate(plans) : Status();
}

} // namespace ashlar::rt
