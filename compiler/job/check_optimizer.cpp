// SPDX-License-Identifier: Apache-2.0
//
// See check_optimizer.h.

#include "compiler/job/check_optimizer.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::StringRef;

namespace ashlar::job {

namespace {

using Schedule = Optimizer::Schedule;

Fault checkPiecewise(const Schedule &schedule) {
  const Schedule::Piecewise &kind = schedule.piecewise();
  if (kind.boundaries().empty()) {
    return "field optimizer.schedule.piecewise.boundaries is not given";
  }
  if (kind.boundaries_size() != kind.values_size()) {
    return llvm::formatv("optimizer.schedule.piecewise has {0} boundaries and {1} values; give the learning rate from each boundary on",
                         kind.boundaries_size(), kind.values_size());
  }
  for (int i = 1; i < kind.boundaries_size(); ++i) {
    if (kind.boundaries(i) <= kind.boundaries(i - 1)) {
      return llvm::formatv("optimizer.schedule.piecewise.boundaries has {0} after {1}; they have to rise", kind.boundaries(i),
                           kind.boundaries(i - 1));
    }
  }
  if (kind.boundaries(0) <= schedule.warmup_steps()) {
    return llvm::formatv("optimizer.schedule.piecewise.boundaries begins at step {0}, within the {1} warmup_steps; begin after them",
                         kind.boundaries(0), schedule.warmup_steps());
  }
  return {};
}

// Checks a decay from the end of the warm-up to a step.
Fault checkDecay(const Schedule &schedule, bool hasSteps, int64_t steps, StringRef kind) {
  if (!hasSteps) {
    return llvm::formatv("field optimizer.schedule.{0}.decay_steps is not given", kind);
  }
  if (steps <= schedule.warmup_steps()) {
    return llvm::formatv("optimizer.schedule.{0}.decay_steps {1} is not above warmup_steps {2}; the decay goes from the end of the warm-up "
                         "to step decay_steps",
                         kind, steps, schedule.warmup_steps());
  }
  return {};
}

Fault checkSchedule(const Schedule &schedule) {
  switch (schedule.kind_case()) {
  case Schedule::kConstant:
    return {};
  case Schedule::kStep:
    return schedule.step().has_size() ? "" : "field optimizer.schedule.step.size is not given";
  case Schedule::kPiecewise:
    return checkPiecewise(schedule);
  case Schedule::kCosine:
    return checkDecay(schedule, schedule.cosine().has_decay_steps(), schedule.cosine().decay_steps(), "cosine");
  case Schedule::kPolynomial:
    return checkDecay(schedule, schedule.polynomial().has_decay_steps(), schedule.polynomial().decay_steps(), "polynomial");
  case Schedule::KIND_NOT_SET: // constant behind the warm-up
    break;
  }
  return schedule.has_warmup_steps()
             ? ""
             : "optimizer.schedule names no kind and no warmup_steps; one of constant, step, piecewise, cosine, polynomial";
}

} // namespace

Fault checkOptimizer(const Optimizer &optimizer) {
  if (optimizer.kind_case() == Optimizer::KIND_NOT_SET) {
    return "optimizer names no kind; one of sgd, momentum, adam, adamw, lamb";
  }
  if (!optimizer.has_learning_rate()) {
    return "field optimizer.learning_rate is not given";
  }
  return optimizer.has_schedule() ? checkSchedule(optimizer.schedule()) : "";
}

} // namespace ashlar::job
