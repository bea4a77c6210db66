// SPDX-License-Identifier: Apache-2.0
//
// See schedule.h.

#include "passes/train/update/schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace ashlar::train {

namespace {

bool decays(const Schedule &schedule) {
  return schedule.kind == ScheduleKind::Cosine || schedule.kind == ScheduleKind::Polynomial;
}

// Returns which part of the decay is over, from 0 at the end of the warm-up to 1 at step `decaySteps` and later.
Number progress(NumberBuilder &numbers, const Schedule &schedule, Number step) {
  Number since = numbers.subtract(step, static_cast<double>(schedule.warmupSteps));
  Number part = numbers.divide(since, static_cast<double>(schedule.decaySteps - schedule.warmupSteps));
  return numbers.smallest(numbers.largest(part, 0.0), 1.0);
}

// Returns the share of learningRate - endLearningRate that is left after a part of the decay.
Number shareLeft(NumberBuilder &numbers, const Schedule &schedule, Number part) {
  if (schedule.kind == ScheduleKind::Cosine) {
    return numbers.multiply(0.5, numbers.add(1.0, numbers.cosine(numbers.multiply(M_PI, part))));
  }
  Number left = numbers.subtract(1.0, part);
  return schedule.power == 1 ? left : numbers.power(left, schedule.power);
}

// Returns the learning rate of a step behind the warm-up.
Number afterWarmup(NumberBuilder &numbers, const Schedule &schedule, Number step) {
  switch (schedule.kind) {
  case ScheduleKind::Constant:
    return schedule.learningRate;
  case ScheduleKind::Step: {
    Number since = numbers.subtract(step, static_cast<double>(schedule.warmupSteps));
    Number count = numbers.floor(numbers.divide(since, static_cast<double>(schedule.stepSize)));
    return numbers.multiply(schedule.learningRate, numbers.power(schedule.gamma, numbers.largest(count, 0.0)));
  }
  case ScheduleKind::Piecewise: {
    Number rate = schedule.values.back();
    for (size_t i = schedule.boundaries.size(); i-- > 0;) {
      rate = numbers.chooseBelow(step, static_cast<double>(schedule.boundaries[i]), i == 0 ? schedule.learningRate : schedule.values[i - 1],
                                 rate);
    }
    return rate;
  }
  case ScheduleKind::Cosine:
  case ScheduleKind::Polynomial: {
    Number left = shareLeft(numbers, schedule, progress(numbers, schedule, step));
    return numbers.add(schedule.endLearningRate, numbers.multiply(schedule.learningRate - schedule.endLearningRate, left));
  }
  }
  llvm_unreachable("unknown schedule");
}

} // namespace

std::string findFault(const Schedule &schedule) {
  if (!(schedule.learningRate > 0)) {
    return llvm::formatv("learning rate {0} is not above 0", schedule.learningRate);
  }
  if (schedule.warmupSteps < 0) {
    return llvm::formatv("warm-up of {0} steps; a number of steps is at least 0", schedule.warmupSteps);
  }
  if (schedule.kind == ScheduleKind::Step && (schedule.stepSize < 1 || !(schedule.gamma > 0))) {
    return llvm::formatv("schedule step takes a size of at least 1 and a gamma above 0; got {0} and {1}", schedule.stepSize,
                         schedule.gamma);
  }
  if (schedule.kind == ScheduleKind::Piecewise) {
    if (schedule.boundaries.empty() || schedule.boundaries.size() != schedule.values.size()) {
      return llvm::formatv("schedule piecewise takes as many boundaries as values, and at least one; got {0} and {1}",
                           schedule.boundaries.size(), schedule.values.size());
    }
    bool rises = llvm::all_of(llvm::seq<size_t>(1, schedule.boundaries.size()),
                              [&](size_t i) { return schedule.boundaries[i - 1] < schedule.boundaries[i]; });
    if (!rises || schedule.boundaries.front() <= schedule.warmupSteps ||
        llvm::any_of(schedule.values, [](double x) { return !(x >= 0); })) {
      return "schedule piecewise takes rising boundaries after the warm-up, and values of at least 0";
    }
  }
  if (decays(schedule) && (schedule.decaySteps <= schedule.warmupSteps || !(schedule.endLearningRate >= 0) || !(schedule.power > 0))) {
    return llvm::formatv(
        "a decay takes decay steps above the {0} of the warm-up, an end of at least 0 and a power above 0; got {1}, {2} and {3}",
        schedule.warmupSteps, schedule.decaySteps, schedule.endLearningRate, schedule.power);
  }
  return "";
}

Number learningRateAt(NumberBuilder &numbers, const Schedule &schedule, Number step) {
  if (schedule.isConstant()) {
    return schedule.learningRate;
  }
  Number rate = afterWarmup(numbers, schedule, step);
  if (schedule.warmupSteps == 0) {
    return rate;
  }
  Number rising = numbers.multiply(schedule.learningRate / static_cast<double>(schedule.warmupSteps), numbers.add(step, 1.0));
  return numbers.chooseBelow(step, static_cast<double>(schedule.warmupSteps), rising, rate);
}

} // namespace ashlar::train
