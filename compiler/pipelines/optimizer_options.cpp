// SPDX-License-Identifier: Apache-2.0
//
// See optimizer_options.h.

#include "compiler/pipelines/optimizer_options.h"

#include "llvm/ADT/STLExtras.h"

namespace ashlar::pipelines {
namespace {

template <typename Kind> void setMoments(const Kind &kind, train::OptimizerPassOptions &options) {
  options.beta1 = kind.beta1();
  options.beta2 = kind.beta2();
  options.epsilon = kind.epsilon();
  options.weightDecay = kind.weight_decay();
}

template <typename Kind> void setDecay(const Kind &kind, train::OptimizerPassOptions &options) {
  options.decaySteps = kind.decay_steps();
  options.endLearningRate = kind.end_learning_rate();
}

void setSchedule(const job::Optimizer::Schedule &schedule, train::OptimizerPassOptions &options) {
  using Schedule = job::Optimizer::Schedule;
  options.warmupSteps = schedule.warmup_steps();
  switch (schedule.kind_case()) {
  case Schedule::kStep:
    options.scheduleKind = train::ScheduleKind::Step;
    options.stepSize = schedule.step().size();
    options.gamma = schedule.step().gamma();
    break;
  case Schedule::kPiecewise:
    options.scheduleKind = train::ScheduleKind::Piecewise;
    llvm::append_range(options.boundaries, schedule.piecewise().boundaries());
    llvm::append_range(options.values, schedule.piecewise().values());
    break;
  case Schedule::kCosine:
    options.scheduleKind = train::ScheduleKind::Cosine;
    setDecay(schedule.cosine(), options);
    break;
  case Schedule::kPolynomial:
    options.scheduleKind = train::ScheduleKind::Polynomial;
    setDecay(schedule.polynomial(), options);
    options.power = schedule.polynomial().power();
    break;
  default: // constant, or none, which is the same
    options.scheduleKind = train::ScheduleKind::Constant;
    break;
  }
}

} // namespace

train::OptimizerPassOptions optimizerOptions(const job::Optimizer &optimizer) {
  train::OptimizerPassOptions options;
  options.learningRate = optimizer.learning_rate();
  switch (optimizer.kind_case()) {
  case job::Optimizer::kMomentum:
    options.kind = train::OptimizerKind::Momentum;
    options.momentum = optimizer.momentum().momentum();
    options.nesterov = optimizer.momentum().nesterov();
    options.weightDecay = optimizer.momentum().weight_decay();
    break;
  case job::Optimizer::kAdam:
    options.kind = train::OptimizerKind::Adam;
    setMoments(optimizer.adam(), options);
    break;
  case job::Optimizer::kAdamw:
    options.kind = train::OptimizerKind::AdamW;
    setMoments(optimizer.adamw(), options);
    break;
  case job::Optimizer::kLamb:
    options.kind = train::OptimizerKind::Lamb;
    setMoments(optimizer.lamb(), options);
    break;
  default: // checkJob lets no other pass
    options.kind = train::OptimizerKind::Sgd;
    options.weightDecay = optimizer.sgd().weight_decay();
    break;
  }
  setSchedule(optimizer.schedule(), options);
  return options;
}

} // namespace ashlar::pipelines
