// SPDX-License-Identifier: Apache-2.0
//
// A hand-written pipeline of stages whose kernels are plain C functions, and the same training in a few lines, for tests of the runtime.

#ifndef ASHLAR_TEST_UNIT_RUNTIME_TOY_PIPELINE_H
#define ASHLAR_TEST_UNIT_RUNTIME_TOY_PIPELINE_H

#include "test/unit/runtime/toy_image.h"

#include <functional>
#include <string>
#include <vector>

namespace ashlar::test {

// The parameters of a toy pipeline.
struct ToyPipeline {
  uint32_t stages = 2;
  uint32_t devices = 1; // of a stage; divides 8
  uint32_t microBatches = 4;
  bool allForwardFirst = false; // GPIPE, with a slot for each micro-batch; else one forward, one backward, with a slot for each in flight
  uint32_t slowStage = ~0u;     // sleeps in every run of forward and backward
  uint32_t sleep = 2000;        // us, at most; half of it is predicted, and 1 us of other work
  uint64_t messageBytes = 0;    // least size of a message between stages
};

// Reads "STAGESxDEVICES[:gpipe][:slow=STAGE][:sleep=US][:bytes=BYTES]"; stage 99: all.
ToyPipeline parseToyPipeline(const std::string &text);

// y = w0 w1 ... x0, a factor a stage, trained on the regression generator with micro-batches of 8; the gradients are divided by 1 plus
// their squared norm over all stages, which goes from stage to stage and back. Has forward, backward, norm, update and eval_step. Loss and
// error lie on the last stage; each stage has a parameter "w<stage>".
std::unique_ptr<ToyImage> makeToyPipeline(const ToyPipeline &toy);

// Returns the program of that name, which the variant has.
ashlar_rt_program &programNamed(const ashlar_rt_variant &variant, const std::string &name);

// Samples of a micro-batch, and how many of them a device of such a pipeline has.
constexpr uint32_t kToyRows = 8;

// Trains the same model for so many steps with the same operations in the same order, samples by `x` and `z` of (micro-batch since the
// start, row). Returns the factors after it; `losses` get the loss of each step.
std::vector<float> trainByHand(const ToyPipeline &toy, uint64_t steps, const std::function<float(uint64_t, uint32_t)> &x,
                               const std::function<float(uint64_t, uint32_t)> &z, std::vector<float> &losses);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_RUNTIME_TOY_PIPELINE_H
