// SPDX-License-Identifier: Apache-2.0
//
// Optimizers, schedules and clipping by plain loops in double precision, after the formulas in passes/train/passes.td and no code of the
// compiler's. Written for reading.

#ifndef ASHLAR_TEST_FUZZ_OPTIMIZER_REFERENCE_H
#define ASHLAR_TEST_FUZZ_OPTIMIZER_REFERENCE_H

#include "compiler/job/job.pb.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace ashlar::fuzz {

// The optimizer's state of a parameter: the momentum or first moment, and the second moment. Empty is 0.
struct OptimizerState {
  std::vector<double> first, second;
};

// Returns the learning rate of a step; the first is 0.
double learningRateOf(const job::Optimizer &optimizer, int64_t step);

// Returns the weight decay of all parameters without one of their own.
double weightDecayOf(const job::Optimizer &optimizer);

// Returns the factor of clipping for all gradients.
double clipFactor(const job::Optimizer &optimizer, const std::vector<const std::vector<double> *> &gradients);

// Updates a parameter and its state in step `step`, the update after `updates` others. `round` is applied to written values.
void updateParameter(const job::Optimizer &optimizer, int64_t step, int64_t updates, double decay, const std::vector<double> &gradient,
                     std::vector<double> &parameter, OptimizerState &state, const std::function<double(double)> &round);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_OPTIMIZER_REFERENCE_H
