// SPDX-License-Identifier: Apache-2.0
//
// A step of a pipeline in which each stage is one actor, as a plan has it: programs of known times, and messages that share no links.

#ifndef ASHLAR_RUNTIME_TIMELINE_STAGED_STEP_H
#define ASHLAR_RUNTIME_TIMELINE_STAGED_STEP_H

#include "runtime/timeline/timed_step.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// Messages from one stage to another. The n-th one that goes in on one side comes out n-th on the other.
struct StageMessages {
  uint32_t from, to; // stages
  uint64_t ps;       // to take one
};

// Adds a program that only computes to a stage, and returns it. Its receives and sends are numbers of channels.
TimedProgram &addTimedProgram(TimedStep &step, uint32_t stage, uint64_t ps);

// Plays one step (playSteps), and returns the times of each stage. `channels`: by the numbers that the programs use.
//
//   stage 0 runs a0 b0, stage 1 runs c0; a takes 1 and sends to c, c takes 2 and sends to b, b takes 1  ->  a 0-1, c 1-3, b 3-4: of the
//   step of 4, stage 0 waits 2, stage 1 waits 2
std::vector<ActorTimes> playStagedStep(const TimedStep &step, const std::vector<StageMessages> &channels);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TIMELINE_STAGED_STEP_H
