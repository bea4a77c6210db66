// SPDX-License-Identifier: Apache-2.0
//
// Puts the steps of a chain together.

#include "runtime/data/transform_chain.h"

#include "runtime/abi/sample_shapes.h"
#include "runtime/data/sample_steps.h"

#include <algorithm>

namespace ashlar::rt {

namespace {

// Whether every number of a type is one of the other, so that a cast changes nothing.
bool holdsAll(uint32_t to, uint32_t from) {
  bool holds = false;
  withDtype(from, [&](auto source) {
    withDtype(to, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      if constexpr (std::is_same_v<From, To> || std::is_same_v<From, bool>) {
        holds = true;
      } else if constexpr (isFloatElement<From>()) {
        holds = isFloatElement<To>() && sizeof(To) > sizeof(From);
      } else {
        const bool hasSign = isFloatElement<To>() || std::is_signed_v<To> || !std::is_signed_v<From>;
        holds = hasSign && digitsOfElement<To>() >= digitsOfElement<From>();
      }
    });
  });
  return holds;
}

// Whether numbers on the way to or from a type are f64.
bool isWide(uint32_t type) {
  bool isWide = false;
  withDtype(type, [&](auto element) { isWide = digitsOfElement<decltype(element)>() > digitsOfElement<float>(); });
  return isWide;
}

// Sees one transform after the other. As long as all of them scale and shift all elements alike there are no plans, just the scale and the
// shift of all of them together.
class Builder {
public:
  Builder(const Column &column, uint32_t to, bool hasChannelsFirst)
      : from(column.element), current(column.element), computed(isWide(from) || isWide(to) ? ASHLAR_RT_F64 : ASHLAR_RT_F32) {
    shape.dims = column.shape;
    load.in = gridOf(column.shape, hasChannelsFirst);
    load.out = load.in;
  }

  // Adds transform `number`, which applyToShape has checked.
  void add(const ashlar_rt_transform &transform, uint32_t number, const SampleShape &after) {
    const double *numbers = transform.numbers;
    switch (transform.kind) {
    case ASHLAR_RT_RESCALE:
      scaleAndShift({numbers[0]}, {numbers[1]});
      break;
    case ASHLAR_RT_NORMALIZE:
      normalize(numbers, transform.num_numbers / 2);
      break;
    case ASHLAR_RT_RESIZE:
      resize(after);
      break;
    case ASHLAR_RT_RANDOM_CROP:
      move({number, /*isFlip=*/false, 0, after.dims[0], after.dims[1], static_cast<int64_t>(numbers[2])});
      break;
    case ASHLAR_RT_RANDOM_FLIP:
      move({number, /*isFlip=*/true, numbers[0]});
      break;
    case ASHLAR_RT_TYPE_CAST:
      cast(static_cast<uint32_t>(numbers[0]));
      break;
    case ASHLAR_RT_ONE_HOT:
      spread(static_cast<int64_t>(numbers[0]));
      break;
    case ASHLAR_RT_HWC_TO_CHW: // the grid of the first step
      begin();
      break;
    }
    shape = after;
  }

  std::vector<StepPlan> plans;
  StepPlan load; // while there are no plans: what the first one begins with
  uint32_t from, current, computed;
  SampleShape shape;

private:
  static Grid gridOf(const std::vector<int64_t> &dims, bool hasChannelsFirst) {
    Grid grid;
    if (dims.size() == 3) {
      grid = {hasChannelsFirst ? dims[2] : 1, dims[0], dims[1], hasChannelsFirst ? 1 : dims[2]};
    } else if (dims.size() == 2) {
      grid = {1, dims[0], dims[1], 1};
    } else {
      grid.width = numElements(dims);
    }
    return grid;
  }

  // Makes a first step.
  void begin() {
    if (plans.empty()) {
      plans.push_back(load);
    }
  }

  StepPlan &last() { return plans.empty() ? load : plans.back(); }

  StepPlan &push(StepKind kind) {
    begin();
    StepPlan plan;
    plan.kind = kind;
    plan.in = plan.out = plans.back().out;
    plans.push_back(std::move(plan));
    return plans.back();
  }

  static void widen(std::vector<double> &values, size_t count) { values.resize(std::max(count, values.size()), values[0]); }

  // x * scale + shift for what the last step makes, of all channels or each.
  void scaleAndShift(const std::vector<double> &scale, const std::vector<double> &shift) {
    transformLast(scale.size(),
                  [&](double &x, size_t channel, bool isFactor) { x = x * scale[channel] + (isFactor ? 0 : shift[channel]); });
  }

  void normalize(const double *numbers, size_t count) {
    if (count > 1) {
      begin();
    }
    transformLast(count,
                  [&](double &x, size_t channel, bool isFactor) { x = (isFactor ? x : x - numbers[channel]) / numbers[count + channel]; });
  }

  template <typename Apply> void transformLast(size_t count, Apply &&apply) {
    StepPlan &step = last();
    for (std::vector<double> *values : {&step.scale, &step.shift, &step.padding}) {
      widen(*values, count);
      for (size_t i = 0; i < values->size(); ++i) {
        apply((*values)[i], count == 1 ? 0 : i, /*isFactor=*/values == &step.scale);
      }
    }
    current = computed;
  }

  void resize(const SampleShape &after) {
    begin();
    if (after.dims == shape.dims) {
      return;
    }
    StepPlan &step = push(StepKind::kResize);
    step.out.height = after.dims[0];
    step.out.width = after.dims[1];
    current = computed;
  }

  // A window takes in all moves that follow it, unless there would be two kinds of padding.
  void move(const WindowMove &move) {
    begin();
    auto isZero = [](double value) { return value == 0; };
    auto fits = [&](const StepPlan &step) {
      return step.kind == StepKind::kWindow &&
             (move.padding == 0 || !step.hasPadding || std::all_of(step.padding.begin(), step.padding.end(), isZero));
    };
    StepPlan &step = fits(plans.back()) ? plans.back() : push(StepKind::kWindow);
    if (move.padding > 0 && !step.hasPadding) {
      step.padding.assign(1, 0);
      step.hasPadding = true;
    }
    if (!move.isFlip) {
      step.out.height = move.height;
      step.out.width = move.width;
    }
    step.moves.push_back(move);
  }

  void cast(uint32_t to) {
    if (!holdsAll(to, current)) {
      push(StepKind::kCast).castTo = to;
    }
    current = to;
  }

  void spread(int64_t classes) {
    StepPlan &step = push(StepKind::kOneHot);
    step.out = {1, 1, step.in.elements(), classes};
    current = ASHLAR_RT_BOOL;
  }
};

} // namespace

Status TransformChain::create(const Column &column, const ashlar_rt_transform *transforms, uint32_t count, uint32_t to,
                              TransformChain &chain) {
  SampleShape shape;
  shape.dims = column.shape;
  bool hasChannelsFirst = false;
  for (uint32_t i = 0; i < count; ++i) {
    hasChannelsFirst = hasChannelsFirst || transforms[i].kind == ASHLAR_RT_HWC_TO_CHW;
    if (transforms[i].kind == ASHLAR_RT_TYPE_CAST && transforms[i].num_numbers == 1 &&
        dtypeBytes(static_cast<uint32_t>(transforms[i].numbers[0])) == 0) {
      return internal("transform {} of column \"{}\": no data can be of type {}", i + 1, column.name, transforms[i].numbers[0]);
    }
  }
  if (std::string fault = applyToShape(column.name.c_str(), transforms, count, shape); !fault.empty()) {
    return invalid("{}", fault);
  }
  Builder builder(column, to, hasChannelsFirst);
  for (uint32_t i = 0; i < count; ++i) {
    SampleShape after = builder.shape;
    applyToShape(transforms[i], after);
    builder.add(transforms[i], i, after);
  }
  chain = {};
  chain.resultShape = shape.dims;
  chain.plainScale = builder.load.scale[0];
  chain.plainShift = builder.load.shift[0];
  chain.computedType = builder.computed;
  if (!builder.plans.empty()) {
    if (&ASHLAR_RT_COMPONENT(transforms) == nullptr) {
      return internal("column \"{}\": the program was linked without transforms", column.name);
    }
    chain.steps = ASHLAR_RT_COMPONENT(transforms)(builder.from, builder.computed == ASHLAR_RT_F64, builder.plans);
  }
  return {};
}

void TransformChain::run(const void *sample, const SampleRandom &random, void *to) const {
  steps->run(sample, random, to);
}

} // namespace ashlar::rt
