// SPDX-License-Identifier: Apache-2.0
//
// A loss of a batch as the batch's share of a larger one: of a step that is several micro-batches, or of a data set that is several
// batches.

#ifndef ASHLAR_PASSES_TRAIN_LOSS_DIVIDE_LOSS_H
#define ASHLAR_PASSES_TRAIN_LOSS_DIVIDE_LOSS_H

#include "passes/train/loss/sample_dependence.h"

namespace ashlar::train {

// The loss of all is the sum of the shares, divided by the sum of the weights where there are any, which counts as `least` at least.
struct LossShare {
  mlir::Value share, weight; // scalars of floats; no weight: null
  double least = 0;
};

// Makes a training step return its share of the loss of a step of `microBatches` runs. `loss`: a scalar. Changes the function only where it
// succeeds; else `reason` names the op that couples samples.
//   mean of 4 rows, of a step of 8       sum / 8
//   sum / number of valid labels         sum, with that number as the weight
//   mean + 0.1 |w|^2, two runs           sum / 8 + 0.05 |w|^2
mlir::FailureOr<LossShare> divideStep(SampleDependence &dependence, mlir::Value loss, int64_t microBatches, std::string &reason);

// The same for an evaluation of any number of batches, where the first `samples` samples (a scalar of i64) count. `counts`: sums of
// integers over samples, which count the same ones; they are changed in place.
mlir::FailureOr<LossShare> divideEvaluation(SampleDependence &dependence, mlir::Value loss, mlir::ValueRange counts, mlir::Value samples,
                                            std::string &reason);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_LOSS_DIVIDE_LOSS_H
