// SPDX-License-Identifier: Apache-2.0
//
// Unrolls the repetitions of a step.

#include "runtime/execute/order.h"

namespace ashlar::rt {

Status StepOrder::set(const ashlar_rt_variant &variant, uint64_t microBatches) {
  order = variant.order;
  if (order.num_repeats == 0) {
    return internal("a step runs nothing");
  }
  for (uint32_t i = 0; i < order.num_repeats; ++i) {
    const ashlar_rt_repeat &each = order.repeats[i];
    if (each.begin >= each.end || each.end > order.num_runs || each.count == 0) {
      return internal("repetition {} of a step has runs [{}, {}) of {}, {} times", i, each.begin, each.end, order.num_runs, each.count);
    }
  }
  for (uint32_t i = 0; i < order.num_runs; ++i) {
    if (order.runs[i].program >= variant.num_programs) {
      return internal("run {} of a step has program {} of {}", i, order.runs[i].program, variant.num_programs);
    }
  }
  numBatches = 0;
  ashlar_rt_run run;
  for (restart(); next(run);) {
    const char *name = variant.programs[run.program].name;
    if (run.micro_batch >= microBatches) {
      return internal("a step runs {} for micro-batch {} of {}", name, run.micro_batch, microBatches);
    }
    if (run.takes_batch != 0 && run.micro_batch != numBatches++) {
      return internal("{} takes batch {} of a step for micro-batch {}", name, numBatches - 1, run.micro_batch);
    }
  }
  if (numBatches != 0 && numBatches != microBatches) {
    return internal("a step takes {} batches but has {} micro-batches", numBatches, microBatches);
  }
  restart();
  return Status();
}

bool StepOrder::next(ashlar_rt_run &run) {
  if (repeat == order.num_repeats) {
    return false;
  }
  const ashlar_rt_repeat &current = order.repeats[repeat];
  run = order.runs[current.begin + position];
  run.micro_batch += round * current.stride;
  if (++position == current.end - current.begin) {
    position = 0;
    ++round;
  }
  if (round == current.count) {
    round = 0;
    ++repeat;
  }
  return true;
}

} // namespace ashlar::rt
