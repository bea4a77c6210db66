// SPDX-License-Identifier: Apache-2.0
//
// Stages -> actors, channels -> queues.

#include "runtime/timeline/staged_step.h"

#include "runtime/timeline/step_player.h"

#include <algorithm>

namespace ashlar::rt {

TimedProgram &addTimedProgram(TimedStep &step, uint32_t stage, uint64_t ps) {
  step.programs.resize(std::max<size_t>(step.programs.size(), stage + 1));
  TimedProgram &program = step.programs[stage].emplace_back();
  program.otherPs = ps;
  return program;
}

std::vector<ActorTimes> playStagedStep(const TimedStep &step, const std::vector<StageMessages> &channels) {
  const size_t stages = step.runs.size();
  std::vector<Role> roles;
  for (uint32_t stage = 0; stage < stages; ++stage) {
    roles.push_back({stage});
  }
  Meetings meetings(/*axisSets=*/0, channels.size(), stages);
  for (uint32_t channel = 0; channel < channels.size(); ++channel) {
    const StageMessages &ends = channels[channel];
    meetings.queue(channel, ends.from) = meetings.queue(channel, ends.to) = channel;
    meetings.queues.push_back({ends.from, ends.to, ends.ps, /*uses=*/{}});
  }
  return playSteps(step, roles, std::move(meetings), {});
}

} // namespace ashlar::rt
