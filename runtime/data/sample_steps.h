// SPDX-License-Identifier: Apache-2.0
//
// The steps of a chain of transforms. The first one takes elements out of the sample of the data set, in their final order, so hwc2chw is
// no step; scales and shifts are part of the step before them, if there is one.

#ifndef ASHLAR_RUNTIME_DATA_SAMPLE_STEPS_H
#define ASHLAR_RUNTIME_DATA_SAMPLE_STEPS_H

#include "runtime/abi/components.h"
#include "runtime/data/image_kernels.h"
#include "runtime/data/sample_random.h"

#include <memory>
#include <vector>

namespace ashlar::rt {

// A random crop or flip, one of the moves of a window.
struct WindowMove {
  uint32_t number = 0; // of the transform: it has random numbers of its own
  bool isFlip = false;
  double probability = 0;                     // of a flip
  int64_t height = 0, width = 0, padding = 0; // of a crop
};

// The kind of a step, before its channels are mapped.
enum class StepKind { kWindow, kResize, kCast, kOneHot };

// One step, as it is put together.
struct StepPlan {
  StepKind kind = StepKind::kWindow;
  Grid in, out;
  std::vector<WindowMove> moves;          // kWindow
  uint32_t castTo = ASHLAR_RT_F32;        // kCast
  std::vector<double> scale{1}, shift{0}; // of all channels, or each
  std::vector<double> padding{0};         // kWindow: its value, mapped already
  bool hasPadding = false;
};

// All steps, with the memory that they work in.
class SampleSteps {
public:
  virtual ~SampleSteps() = default;

  // Takes a sample through all steps.
  virtual void run(const void *sample, const SampleRandom &random, void *to) = 0;
};

// Makes the steps for samples of `from` elements, height x width x channels in memory, which compute in f64 or else in f32. Assumes that
// the first plan is a window. A component: it is there where a program's transforms do more than scale and shift.
using MakeSampleSteps = std::shared_ptr<SampleSteps> (*)(uint32_t from, bool computesWide, const std::vector<StepPlan> &plans);
extern "C" [[gnu::weak]] const MakeSampleSteps ASHLAR_RT_COMPONENT(transforms);

// Returns where the window lies that the moves take, one after the other, of an image of the size of `in`.
Window windowOf(const Grid &in, const std::vector<WindowMove> &moves, const SampleRandom &random);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_SAMPLE_STEPS_H
