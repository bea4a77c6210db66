// SPDX-License-Identifier: Apache-2.0
//
// See optimizer_text.h.

#include "compiler/report/optimizer_text.h"

#include "compiler/report/units.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace ashlar::report {
namespace {

using Schedule = job::Optimizer::Schedule;

std::string number(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.15g", value);
  return text;
}

std::string decayText(double decay) {
  return decay == 0 ? "no weight decay" : "weight decay " + number(decay);
}

template <typename Kind> std::string momentsText(const char *name, const Kind &kind) {
  return llvm::formatv("{0}, beta1 {1}, beta2 {2}, epsilon {3}, {4}", name, number(kind.beta1()), number(kind.beta2()),
                       number(kind.epsilon()), decayText(kind.weight_decay()));
}

std::string kindText(const job::Optimizer &optimizer) {
  switch (optimizer.kind_case()) {
  case job::Optimizer::kMomentum:
    return "momentum " + number(optimizer.momentum().momentum()) + (optimizer.momentum().nesterov() ? ", nesterov" : "") + ", " +
           decayText(optimizer.momentum().weight_decay());
  case job::Optimizer::kAdam:
    return momentsText("adam", optimizer.adam());
  case job::Optimizer::kAdamw:
    return momentsText("adamw", optimizer.adamw());
  case job::Optimizer::kLamb:
    return momentsText("lamb", optimizer.lamb());
  default:
    return "sgd, " + decayText(optimizer.sgd().weight_decay());
  }
}

// Returns what the learning rate does behind the warm-up; "" when it stays.
std::string courseText(const Schedule &schedule) {
  switch (schedule.kind_case()) {
  case Schedule::kStep:
    return llvm::formatv("times {0} every {1}", number(schedule.step().gamma()), counted(schedule.step().size(), "step"));
  case Schedule::kPiecewise: {
    std::string text;
    for (int i = 0; i < schedule.piecewise().boundaries_size(); ++i) {
      text += llvm::formatv("{0}{1} from step {2}", i == 0 ? "" : ", ", number(schedule.piecewise().values(i)),
                            schedule.piecewise().boundaries(i))
                  .str();
    }
    return text;
  }
  case Schedule::kCosine:
    return llvm::formatv("by a cosine to {0} at step {1}", number(schedule.cosine().end_learning_rate()), schedule.cosine().decay_steps());
  case Schedule::kPolynomial: {
    const Schedule::Polynomial &kind = schedule.polynomial();
    std::string way = kind.power() == 1 ? "in a line" : "by power " + number(kind.power());
    return llvm::formatv("{0} to {1} at step {2}", way, number(kind.end_learning_rate()), kind.decay_steps());
  }
  default:
    return "";
  }
}

} // namespace

std::string optimizerText(const job::Optimizer &optimizer) {
  std::string text = kindText(optimizer) + "; learning rate " + number(optimizer.learning_rate());
  if (int64_t warmup = optimizer.schedule().warmup_steps()) {
    text += ", rising for " + counted(warmup, "step");
  }
  if (std::string course = courseText(optimizer.schedule()); !course.empty()) {
    text += ", then " + course;
  }
  return optimizer.has_clip_global_norm() ? text + "; gradients clipped to norm " + number(optimizer.clip_global_norm()) : text;
}

std::string optimizerParallelText(const job::OptimizerParallel &split) {
  std::string devices =
      split.shard_size() < 0 ? "all devices that replicate a parameter" : "groups of " + std::to_string(split.shard_size());
  return "level " + std::to_string(split.level()) + " from " + std::to_string(split.threshold_kb()) + " KiB on, over " + devices;
}

} // namespace ashlar::report
