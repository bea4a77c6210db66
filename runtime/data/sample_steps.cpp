// SPDX-License-Identifier: Apache-2.0
//
// Runs the steps: each reads what the one ahead of it wrote, and the last one writes to where the result is wanted.

#include "runtime/data/sample_steps.h"

#include "runtime/data/convert_one.h"

#include <algorithm>
#include <array>

namespace ashlar::rt {

namespace {

// Returns the values of all channels.
template <typename T> std::vector<T> ofChannels(const std::vector<double> &values, int64_t channels) {
  std::vector<T> all(values.begin(), values.end());
  all.resize(channels, all[0]);
  return all;
}

// Rounds to what a type can hold.
template <typename T> T castOne(uint32_t type, T value) {
  withDtype(type, [&](auto element) { value = convertOne<T>(convertOne<decltype(element)>(value)); });
  return value;
}

template <typename T> class StepsOf final : public SampleSteps {
public:
  StepsOf(uint32_t from, const std::vector<StepPlan> &plans) : source(from) {
    size_t most = 0, mostRows = 0;
    for (size_t i = 0; i < plans.size(); ++i) {
      const StepPlan &plan = plans[i];
      const int64_t channels = plan.out.channels();
      Step step{plan, {ofChannels<T>(plan.scale, channels), ofChannels<T>(plan.shift, channels), ofChannels<T>(plan.padding, channels)}};
      if (plan.kind == StepKind::kResize) {
        step.map = ofRow(step.map, plan.out);
        step.rows = ResizedSide<T>::make(plan.in.height, plan.out.height);
        step.columns = ResizedSide<T>::make(plan.in.width, plan.out.width);
        mostRows = std::max<size_t>(mostRows, 2 * plan.out.width * plan.out.inner);
      }
      most = i + 1 == plans.size() ? most : std::max<size_t>(most, plan.out.elements());
      steps.push_back(std::move(step));
    }
    for (std::vector<T> &memory : between) {
      memory.resize(most);
    }
    rowMemory.resize(mostRows);
  }

  void run(const void *sample, const SampleRandom &random, void *to) override {
    const void *from = sample;
    for (size_t i = 0; i < steps.size(); ++i) {
      T *result = i + 1 == steps.size() ? static_cast<T *>(to) : between[i % 2].data();
      runStep(steps[i], i == 0, from, random, result);
      from = result;
    }
  }

private:
  struct Step {
    StepPlan plan;
    ChannelMap<T> map;
    ResizedSide<T> rows, columns;
  };

  void runStep(const Step &step, bool isFirst, const void *from, const SampleRandom &random, T *to) {
    const Grid &in = step.plan.in;
    const T *values = static_cast<const T *>(from);
    switch (step.plan.kind) {
    case StepKind::kWindow:
      return copyWindow(isFirst ? sampleView(in, from) : viewOf(in, values), windowOf(in, step.plan.moves, random), step.plan.out, step.map,
                        to);
    case StepKind::kResize:
      return resizeImage(in, values, step.rows, step.columns, step.map, rowMemory.data(), to);
    case StepKind::kCast:
      return castAll(step, values, to);
    case StepKind::kOneHot:
      return spread(step, values, to);
    }
  }

  static void castAll(const Step &step, const T *from, T *to) {
    const Grid &grid = step.plan.out;
    const int64_t pixels = grid.height * grid.width;
    for (int64_t i = 0; i < grid.elements(); ++i) {
      const int64_t channel = i / (pixels * grid.inner) * grid.inner + i % grid.inner;
      to[i] = castOne(step.plan.castTo, from[i]) * step.map.scale[channel] + step.map.shift[channel];
    }
  }

  // Classes are innermost in the result.
  static void spread(const Step &step, const T *from, T *to) {
    const int64_t classes = step.plan.out.inner;
    for (int64_t i = 0; i < step.plan.in.elements(); ++i) {
      for (int64_t c = 0; c < classes; ++c) {
        to[i * classes + c] = (from[i] == static_cast<T>(c) ? step.map.scale[c] : 0) + step.map.shift[c];
      }
    }
  }

  // A sample as the data set has it: channels innermost.
  ImageView sampleView(const Grid &in, const void *sample) const {
    const int64_t channels = in.channels();
    return {sample, source, /*planeStride=*/1, /*rowStride=*/in.width * channels, /*columnStride=*/channels};
  }

  static ImageView viewOf(const Grid &in, const T *values) {
    const uint32_t type = sizeof(T) == sizeof(float) ? ASHLAR_RT_F32 : ASHLAR_RT_F64;
    return {values, type, in.height * in.width * in.inner, in.width * in.inner, in.inner};
  }

  uint32_t source;
  std::vector<Step> steps;
  std::array<std::vector<T>, 2> between;
  std::vector<T> rowMemory;
};

// Goes on to the part [shift, shift + size) of what there is so far, beyond which is padding.
void moveRange(int64_t shift, int64_t size, int64_t &begin, int64_t &end) {
  begin = std::clamp<int64_t>(begin - shift, 0, size);
  end = std::clamp<int64_t>(end - shift, 0, size);
}

// Returns the place of a crop along one side: one of those that are possible, or the middle.
int64_t placeOf(bool isRandom, uint32_t word, int64_t size, int64_t padding, int64_t wanted) {
  const int64_t most = size + 2 * padding - wanted;
  return (isRandom ? static_cast<int64_t>(uint64_t{word} * static_cast<uint64_t>(most + 1) >> 32) : most / 2) - padding;
}

} // namespace

Window windowOf(const Grid &in, const std::vector<WindowMove> &moves, const SampleRandom &random) {
  int64_t height = in.height, width = in.width;
  Window window;
  window.rowEnd = height;
  window.columnEnd = width;
  for (const WindowMove &move : moves) {
    const PhiloxWords words = random.isTraining ? random.words(move.number) : PhiloxWords();
    if (!move.isFlip) {
      const int64_t top = placeOf(random.isTraining, words[0], height, move.padding, move.height);
      const int64_t left = placeOf(random.isTraining, words[1], width, move.padding, move.width);
      height = move.height;
      width = move.width;
      window.rowShift += top;
      window.columnShift += window.columnStep * left;
      moveRange(top, height, window.rowBegin, window.rowEnd);
      moveRange(left, width, window.columnBegin, window.columnEnd);
    } else if (random.isTraining && uniformFloat(words) < move.probability) {
      window.columnShift += window.columnStep * (width - 1);
      window.columnStep = -window.columnStep;
      const int64_t begin = window.columnBegin;
      window.columnBegin = width - window.columnEnd;
      window.columnEnd = width - begin;
    }
  }
  return window;
}

static std::shared_ptr<SampleSteps> makeSteps(uint32_t from, bool computesWide, const std::vector<StepPlan> &plans) {
  if (computesWide) {
    return std::make_shared<StepsOf<double>>(from, plans);
  }
  return std::make_shared<StepsOf<float>>(from, plans);
}

const MakeSampleSteps ASHLAR_RT_COMPONENT(transforms) = makeSteps;

} // namespace ashlar::rt
