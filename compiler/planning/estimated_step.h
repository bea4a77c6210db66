// SPDX-License-Identifier: Apache-2.0
//
// The step and the memory of a job from the numbers of its layers, by the order of its schedule. No IR.

#ifndef ASHLAR_COMPILER_PLANNING_ESTIMATED_STEP_H
#define ASHLAR_COMPILER_PLANNING_ESTIMATED_STEP_H

#include "compiler/planning/forecast.h"

namespace ashlar::planning {

struct Estimate {
  int64_t stepPs = 0;
  uint64_t bytes = 0;    // of a device of the largest stage
  double recomputed = 0; // the share of the moves of rematerialization (docs/recompute.md) that are taken
  double excess = 0;     // bytes above the limit without it
};

// The numbers of a model on a mesh with so many equal layers, in sum over the stages of a pipeline of two, or without a pipeline.
struct LayerNumbers {
  double forwardPs = 0, backwardPs = 0, weightsPs = 0; // programs of a micro-batch; without a pipeline all of it is the rest
  double oncePs = 0;                                   // the rest of a step
  double receivePs = 0;                                // messages of a micro-batch between two stages
  double slotBytes = 0, fixedBytes = 0;                // of a micro-batch in flight, without its messages; of all else
  double messageBytes = 0;                             // messages of a micro-batch between two stages, at both ends
  double onceReceivePs = 0;                            // messages of the rest of a step
};

// Returns the numbers of a forecast of a pipeline of two stages, or without a pipeline.
LayerNumbers numbersOf(const Forecast &forecast);

// The numbers of a model, and the part of them that each of its equal layers has.
struct ModelNumbers {
  LayerNumbers whole, layer;
  int64_t layers = 0;
};

// Returns the numbers of `layers` layers, on the line through `few` and `more` layers, and no less than of more.
ModelNumbers extrapolate(const LayerNumbers &ofFew, int64_t few, const LayerNumbers &ofMore, int64_t more, int64_t layers);

// Returns how many halves of `layers` equal layers each of so many parts of a model has, where what is not in a layer comes after the last
// one and takes as long as so many halves, such that the longest part is as short as possible.
//   4 layers, 3 parts  ->  {3, 2, 3}; with a head as long as half of one  ->  {3, 3, 2}; as two layers  ->  {4, 4, 0}
std::vector<int64_t> shareHalves(int64_t layers, int64_t parts, double head);

// Returns the estimate of a job from the numbers of its model, in stages of halves of layers, in the order and in the slots of its
// schedule. O(stages * micro-batches * chunks).
Estimate estimateStep(const job::Job &job, const ModelNumbers &model);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_ESTIMATED_STEP_H
