// SPDX-License-Identifier: Apache-2.0
//
// See optimizer_reference.h.

#include "test/fuzz/optimizer_reference.h"

#include <algorithm>
#include <cmath>

namespace ashlar::fuzz {

namespace {

using job::Optimizer;
using Vector = std::vector<double>;

double length(const Vector &x) {
  double sum = 0;
  for (double value : x) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

struct Moments {
  double beta1, beta2, epsilon;
};

Moments momentsOf(const Optimizer &optimizer) {
  if (optimizer.has_adam()) {
    return {optimizer.adam().beta1(), optimizer.adam().beta2(), optimizer.adam().epsilon()};
  }
  if (optimizer.has_adamw()) {
    return {optimizer.adamw().beta1(), optimizer.adamw().beta2(), optimizer.adamw().epsilon()};
  }
  return {optimizer.lamb().beta1(), optimizer.lamb().beta2(), optimizer.lamb().epsilon()};
}

// What a schedule multiplies the way from the first learning rate to the last by, `part` of the decay being over.
double decayLeft(const Optimizer::Schedule &schedule, double part) {
  part = std::min(part, 1.0);
  return schedule.has_cosine() ? (1 + std::cos(std::acos(-1.0) * part)) / 2 : std::pow(1 - part, schedule.polynomial().power());
}

// Adam's direction, and LAMB's: the moments without their bias.
Vector momentDirection(const Optimizer &optimizer, int64_t update, const Vector &gradient, OptimizerState &state,
                       const std::function<double(double)> &round) {
  auto [beta1, beta2, epsilon] = momentsOf(optimizer);
  auto t = static_cast<double>(update);
  Vector direction;
  for (size_t i = 0; i < gradient.size(); ++i) {
    state.first[i] = round(beta1 * state.first[i] + (1 - beta1) * gradient[i]);
    state.second[i] = round(beta2 * state.second[i] + (1 - beta2) * gradient[i] * gradient[i]);
    double mean = state.first[i] / (1 - std::pow(beta1, t)), square = state.second[i] / (1 - std::pow(beta2, t));
    direction.push_back(mean / (std::sqrt(square) + epsilon));
  }
  return direction;
}

// What is subtracted from the parameter, before the learning rate.
Vector directionOf(const Optimizer &optimizer, int64_t update, double decay, const Vector &gradient, const Vector &parameter,
                   OptimizerState &state, const std::function<double(double)> &round) {
  Vector decayed = gradient;
  for (size_t i = 0; i < gradient.size(); ++i) {
    decayed[i] += decay * parameter[i];
  }
  if (optimizer.has_sgd()) {
    return decayed;
  }
  if (optimizer.has_momentum()) {
    const Optimizer::Momentum &kind = optimizer.momentum();
    for (size_t i = 0; i < gradient.size(); ++i) {
      state.first[i] = round(kind.momentum() * state.first[i] + decayed[i]);
      decayed[i] = kind.nesterov() ? decayed[i] + kind.momentum() * state.first[i] : state.first[i];
    }
    return decayed;
  }
  Vector direction = momentDirection(optimizer, update, optimizer.has_adam() ? decayed : gradient, state, round);
  for (size_t i = 0; i < gradient.size(); ++i) {
    direction[i] += optimizer.has_adam() ? 0 : decay * parameter[i];
  }
  if (optimizer.has_lamb()) {
    double ofParameter = length(parameter), ofDirection = length(direction);
    double trust = ofParameter > 0 && ofDirection > 0 ? ofParameter / ofDirection : 1;
    for (double &value : direction) {
      value *= trust;
    }
  }
  return direction;
}

} // namespace

double learningRateOf(const Optimizer &optimizer, int64_t step) {
  const Optimizer::Schedule &schedule = optimizer.schedule();
  double rate = optimizer.learning_rate();
  int64_t warmup = schedule.warmup_steps();
  if (step < warmup) {
    return rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  if (schedule.has_step()) {
    for (int64_t left = (step - warmup) / schedule.step().size(); left > 0; --left) {
      rate *= schedule.step().gamma();
    }
  }
  for (int i = 0; i < schedule.piecewise().boundaries_size(); ++i) {
    rate = step >= schedule.piecewise().boundaries(i) ? schedule.piecewise().values(i) : rate;
  }
  if (schedule.has_cosine() || schedule.has_polynomial()) {
    int64_t end = schedule.has_cosine() ? schedule.cosine().decay_steps() : schedule.polynomial().decay_steps();
    double last = schedule.has_cosine() ? schedule.cosine().end_learning_rate() : schedule.polynomial().end_learning_rate();
    rate = last + (rate - last) * decayLeft(schedule, static_cast<double>(step - warmup) / static_cast<double>(end - warmup));
  }
  return rate;
}

double weightDecayOf(const Optimizer &optimizer) {
  switch (optimizer.kind_case()) {
  case Optimizer::kSgd:
    return optimizer.sgd().weight_decay();
  case Optimizer::kMomentum:
    return optimizer.momentum().weight_decay();
  case Optimizer::kAdam:
    return optimizer.adam().weight_decay();
  case Optimizer::kAdamw:
    return optimizer.adamw().weight_decay();
  default:
    return optimizer.lamb().weight_decay();
  }
}

double clipFactor(const Optimizer &optimizer, const std::vector<const Vector *> &gradients) {
  double sum = 0;
  for (const Vector *gradient : gradients) {
    sum += std::pow(length(*gradient), 2);
  }
  return optimizer.has_clip_global_norm() ? std::min(1.0, optimizer.clip_global_norm() / (std::sqrt(sum) + 1e-6)) : 1;
}

void updateParameter(const Optimizer &optimizer, int64_t step, int64_t updates, double decay, const Vector &gradient, Vector &parameter,
                     OptimizerState &state, const std::function<double(double)> &round) {
  state.first.resize(parameter.size());
  state.second.resize(parameter.size());
  double rate = learningRateOf(optimizer, step);
  Vector direction = directionOf(optimizer, updates + 1, decay, gradient, parameter, state, round);
  for (size_t i = 0; i < parameter.size(); ++i) {
    parameter[i] = round(parameter[i] - rate * direction[i]);
  }
}

} // namespace ashlar::fuzz
