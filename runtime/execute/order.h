// SPDX-License-Identifier: Apache-2.0
//
// The order in which a training step runs its programs: repetitions of short lists of runs, so that the image does not grow with the number
// of micro-batches.

#ifndef ASHLAR_RUNTIME_EXECUTE_ORDER_H
#define ASHLAR_RUNTIME_EXECUTE_ORDER_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

namespace ashlar::rt {

// Walks over the runs of one step after the other. Example: runs a0 b0 c0, where [0, 2) repeats twice with stride 1 and [2, 3) once -> a0
// b0 a1 b1 c0.
class StepOrder {
public:
  // Nothing to run until set.
  StepOrder() = default;

  // Checks the order against the programs, and that each of the `microBatches` of a step takes its batch once, in order, or none does.
  Status set(const ashlar_rt_variant &variant, uint64_t microBatches);

  // Batches of the data that a step takes.
  uint64_t batches() const { return numBatches; }

  // Goes to the first run of a step.
  void restart() { repeat = position = 0, round = 0; }

  // Moves on to the next run of the step; false at its end.
  bool next(ashlar_rt_run &run);

private:
  ashlar_rt_order order = {};
  uint32_t repeat = 0;   // the repetition that the next run is in
  uint32_t position = 0; // of the next run in it
  uint32_t round = 0;    // how often it has been done
  uint64_t numBatches = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_ORDER_H
