// SPDX-License-Identifier: Apache-2.0
//
// See random_optimizer.h. Numbers are short in binary, so that f32 and text hold them.

#include "test/fuzz/random_optimizer.h"

#include <cmath>

namespace ashlar::fuzz {

namespace {

using job::Optimizer;

template <typename Kind> void drawDecay(Dice &dice, Kind &kind) {
  if (dice.oneIn(2)) {
    kind.set_weight_decay(dice.roll(8) / 32.0);
  }
}

template <typename Kind> void drawMoments(Dice &dice, Kind &kind) {
  if (!dice.oneIn(3)) {
    kind.set_beta1(dice.roll(8) / 8.0);
  }
  if (!dice.oneIn(3)) {
    kind.set_beta2((3 + dice.roll(5)) / 8.0);
  }
  if (!dice.oneIn(4)) {
    kind.set_epsilon((1 + dice.roll(8)) / 64.0);
  }
  drawDecay(dice, kind);
}

void drawKind(Dice &dice, Optimizer &optimizer) {
  switch (dice.roll(5)) {
  case 0:
    drawDecay(dice, *optimizer.mutable_sgd());
    break;
  case 1:
    drawDecay(dice, *optimizer.mutable_momentum());
    if (!dice.oneIn(4)) {
      optimizer.mutable_momentum()->set_momentum(dice.roll(8) / 8.0);
    }
    if (dice.oneIn(2)) {
      optimizer.mutable_momentum()->set_nesterov(dice.oneIn(2));
    }
    break;
  case 2:
    drawMoments(dice, *optimizer.mutable_adam());
    break;
  case 3:
    drawMoments(dice, *optimizer.mutable_adamw());
    break;
  default:
    drawMoments(dice, *optimizer.mutable_lamb());
    break;
  }
}

template <typename Kind> void drawEnd(Dice &dice, int64_t warmup, Kind &kind) {
  kind.set_decay_steps(warmup + 1 + dice.roll(12));
  if (dice.oneIn(2)) {
    kind.set_end_learning_rate(dice.roll(4) / 128.0);
  }
}

void drawSchedule(Dice &dice, Optimizer::Schedule &schedule) {
  if (dice.oneIn(2)) {
    schedule.set_warmup_steps(1 + dice.roll(4));
  }
  int64_t warmup = schedule.warmup_steps();
  switch (dice.roll(5)) {
  case 0:
    schedule.mutable_constant();
    break;
  case 1:
    schedule.mutable_step()->set_size(1 + dice.roll(3));
    if (dice.oneIn(2)) {
      schedule.mutable_step()->set_gamma((1 + dice.roll(5)) / 4.0);
    }
    break;
  case 2:
    for (int64_t count = 1 + dice.roll(3), boundary = warmup; count > 0; --count) {
      schedule.mutable_piecewise()->add_boundaries(boundary += 1 + dice.roll(3));
      schedule.mutable_piecewise()->add_values(dice.roll(8) / 128.0);
    }
    break;
  case 3:
    drawEnd(dice, warmup, *schedule.mutable_cosine());
    break;
  default:
    drawEnd(dice, warmup, *schedule.mutable_polynomial());
    if (dice.oneIn(2)) {
      schedule.mutable_polynomial()->set_power((1 + dice.roll(4)) / 2.0);
    }
    break;
  }
}

} // namespace

Optimizer randomOptimizer(Dice &dice) {
  Optimizer optimizer;
  drawKind(dice, optimizer);
  bool hasMoments = !optimizer.has_sgd() && !optimizer.has_momentum();
  optimizer.set_learning_rate((1 + dice.roll(16)) / (hasMoments ? 256.0 : 64.0));
  if (dice.oneIn(2)) {
    drawSchedule(dice, *optimizer.mutable_schedule());
  }
  if (dice.oneIn(3)) {
    optimizer.set_clip_global_norm(std::ldexp(1.0 + dice.roll(8), -static_cast<int>(dice.roll(10))));
  }
  return optimizer;
}

} // namespace ashlar::fuzz
