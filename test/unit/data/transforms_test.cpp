// SPDX-License-Identifier: Apache-2.0
//
// Transforms: against numbers of NumPy and PyTorch, on every path from column to tensor, and what does not fit together.

#include "runtime/data/feature.h"
#include "test/unit/data/allocations.h"
#include "test/unit/data/transform_numbers.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include <catch2/catch.hpp>

namespace ashlar::test::transforms_test {

using namespace ashlar::rt;
using Catch::Matchers::Contains;

namespace {

// A list of transforms that keeps its numbers.
class Transforms {
public:
  Transforms &add(uint32_t kind, std::vector<double> values = {}) {
    numbers.push_back(std::move(values));
    list.push_back({kind, static_cast<uint32_t>(numbers.back().size()), numbers.back().data()});
    return *this;
  }

  Status create(const Column &column, uint32_t to, TransformChain &chain) const {
    return TransformChain::create(column, list.data(), static_cast<uint32_t>(list.size()), to, chain);
  }

  std::vector<ashlar_rt_transform> list;

private:
  std::deque<std::vector<double>> numbers;
};

TransformChain created(const Transforms &transforms, const Column &column, uint32_t to = ASHLAR_RT_F32) {
  TransformChain chain;
  const Status status = transforms.create(column, to, chain);
  INFO(status.message());
  REQUIRE(status.ok());
  return chain;
}

// The chains of test/bench/transforms_torch.py.
Transforms chainOf(const std::string &name) {
  const std::vector<double> numbers = {0.5, 0.25, 0.75, 0.25, 0.5, 2};
  Transforms chain;
  if (name == "training") {
    chain.add(ASHLAR_RT_RANDOM_CROP, {6, 5, 2}).add(ASHLAR_RT_RANDOM_FLIP, {0.5}).add(ASHLAR_RT_RESIZE, {11, 9});
    chain.add(ASHLAR_RT_RESCALE, {1.0 / 255, 0}).add(ASHLAR_RT_NORMALIZE, numbers).add(ASHLAR_RT_HWC_TO_CHW);
  } else if (name == "normalized first") {
    chain.add(ASHLAR_RT_RESCALE, {1.0 / 255, 1}).add(ASHLAR_RT_RANDOM_FLIP, {0.25}).add(ASHLAR_RT_NORMALIZE, numbers);
    chain.add(ASHLAR_RT_RANDOM_CROP, {9, 9, 2}).add(ASHLAR_RT_RESIZE, {4, 3}).add(ASHLAR_RT_RANDOM_FLIP, {0.75});
    chain.add(ASHLAR_RT_RESCALE, {2, -1});
  } else if (name == "two paddings") {
    chain.add(ASHLAR_RT_RANDOM_CROP, {9, 8, 1}).add(ASHLAR_RT_RESCALE, {0.5, 3}).add(ASHLAR_RT_RANDOM_CROP, {11, 9, 2});
    chain.add(ASHLAR_RT_HWC_TO_CHW).add(ASHLAR_RT_NORMALIZE, numbers);
  } else if (name == "gray") {
    chain.add(ASHLAR_RT_RANDOM_CROP, {5, 5, 1}).add(ASHLAR_RT_RESIZE, {8, 3}).add(ASHLAR_RT_RANDOM_CROP, {4, 2, 0});
    chain.add(ASHLAR_RT_RANDOM_FLIP, {1});
  } else {
    REQUIRE(name == "cast");
    chain.add(ASHLAR_RT_RESIZE, {5, 5}).add(ASHLAR_RT_TYPE_CAST, {ASHLAR_RT_I32}).add(ASHLAR_RT_RANDOM_CROP, {5, 5, 3});
    chain.add(ASHLAR_RT_RESCALE, {1, 0.5}).add(ASHLAR_RT_HWC_TO_CHW);
  }
  return chain;
}

// The image of a sample, of any type.
template <typename T> std::vector<T> imageOf(uint64_t sample, int64_t channels) {
  std::vector<T> pixels;
  for (int64_t y = 0; y < 7; ++y) {
    for (int64_t x = 0; x < 6; ++x) {
      for (int64_t c = 0; c < std::max<int64_t>(channels, 1); ++c) {
        pixels.push_back(static_cast<T>((sample * 53 + y * 17 + x * 29 + c * 71 + y * x % 7 * 13) % 256));
      }
    }
  }
  return pixels;
}

Column imageColumn(uint32_t element, int64_t channels) {
  return {"image", element, channels == 0 ? std::vector<int64_t>{7, 6} : std::vector<int64_t>{7, 6, channels}};
}

// Runs all recorded samples through a chain of a type, in any order of channels, and compares them.
template <typename From, typename To> void checkRecorded(uint32_t from, uint32_t to, double tolerance) {
  std::map<std::string, TransformChain> chains;
  for (const ashlar::test::TransformNumbers &expected : ashlar::test::kTransformNumbers) {
    INFO(expected.chain << ", training " << expected.isTraining << ", pass " << expected.pass << ", sample " << expected.sample);
    const int64_t channels = std::string(expected.chain) == "gray" ? 0 : 3;
    if (chains.count(expected.chain) == 0) {
      chains[expected.chain] = created(chainOf(expected.chain), imageColumn(from, channels), to);
    }
    const TransformChain &chain = chains[expected.chain];
    REQUIRE(chain.computed() == to);
    REQUIRE(numElements(chain.shape()) == expected.count);
    std::vector<To> values(expected.count, std::nan(""));
    const std::vector<From> image = imageOf<From>(expected.sample, channels);
    chain.run(image.data(), {expected.isTraining, ashlar::test::kTransformSeed, expected.pass, expected.sample}, values.data());
    double sum = 0;
    for (int64_t i = 0; i < expected.count; ++i) {
      sum += values[i] * std::cos(static_cast<double>(i));
    }
    CHECK(std::abs(values.front() - expected.first) <= tolerance * (1 + std::abs(expected.first)));
    CHECK(std::abs(values.back() - expected.last) <= tolerance * (1 + std::abs(expected.last)));
    // 300 elements up to 260.
    CHECK(std::abs(sum - expected.sum) <= 300 * tolerance * (1 + std::abs(expected.sum)));
  }
}

std::string refusal(const Transforms &transforms, std::vector<int64_t> shape) {
  TransformChain chain;
  const Status status = transforms.create({"image", ASHLAR_RT_U8, std::move(shape)}, ASHLAR_RT_F32, chain);
  REQUIRE(!status.ok());
  return status.message();
}

} // namespace

// In f32 a number of up to 256 is rounded a few times, each by 2^-24 of it.
TEST_CASE("transforms: numbers of NumPy and PyTorch", "[data][transforms]") {
  checkRecorded<uint8_t, float>(ASHLAR_RT_U8, ASHLAR_RT_F32, 1e-6);
  checkRecorded<float, float>(ASHLAR_RT_F32, ASHLAR_RT_F32, 1e-6);
  checkRecorded<double, double>(ASHLAR_RT_F64, ASHLAR_RT_F64, 1e-12);
  checkRecorded<int64_t, double>(ASHLAR_RT_I64, ASHLAR_RT_F64, 1e-12);
  checkRecorded<int32_t, double>(ASHLAR_RT_I32, ASHLAR_RT_F64, 1e-12);
}

// What all elements have alike is one multiplication and addition, and takes no memory and no steps.
TEST_CASE("transforms: scales and shifts alone are folded", "[data][transforms]") {
  const Column column = imageColumn(ASHLAR_RT_U8, 3);
  const TransformChain plain = created(
      Transforms().add(ASHLAR_RT_RESCALE, {0.5, 1}).add(ASHLAR_RT_TYPE_CAST, {ASHLAR_RT_F32}).add(ASHLAR_RT_NORMALIZE, {3, 2}), column);
  CHECK((plain.isPlain() && plain.scale() == 0.25 && plain.shift() == -1));
  CHECK(created(Transforms(), column).isPlain());
  CHECK_FALSE(created(Transforms().add(ASHLAR_RT_HWC_TO_CHW), column).isPlain());
  CHECK_FALSE(created(Transforms().add(ASHLAR_RT_NORMALIZE, {1, 2, 3, 4, 5, 6}), column).isPlain());
  CHECK_FALSE(created(Transforms().add(ASHLAR_RT_RESCALE, {0.5, 1}).add(ASHLAR_RT_TYPE_CAST, {ASHLAR_RT_I32}), column).isPlain());
}

TEST_CASE("transforms: casts round as conversion does, and those that change nothing cost nothing", "[data][transforms]") {
  const double values[] = {2.75, -2.75, 0, 1e10, 1 + 0x1p-11, 0.1};
  const Column column = {"x", ASHLAR_RT_F64, {6}};
  auto cast = [&](uint32_t dtype) {
    std::vector<double> result(6);
    created(Transforms().add(ASHLAR_RT_TYPE_CAST, {static_cast<double>(dtype)}), column, ASHLAR_RT_F64)
        .run(values, SampleRandom(), result.data());
    return result;
  };
  CHECK(cast(ASHLAR_RT_I32) == std::vector<double>{2, -2, 0, 2147483647, 1, 0});
  CHECK(cast(ASHLAR_RT_I64) == std::vector<double>{2, -2, 0, 1e10, 1, 0});
  CHECK(cast(ASHLAR_RT_BOOL) == std::vector<double>{1, 1, 0, 1, 1, 1});
  CHECK(cast(ASHLAR_RT_F32) == std::vector<double>{2.75, -2.75, 0, 1e10, 1 + 0x1p-11, static_cast<float>(0.1)});
  CHECK(cast(ASHLAR_RT_F16) == std::vector<double>{2.75, -2.75, 0, std::numeric_limits<double>::infinity(), 1, 0x1.998p-4});
  struct Pair {
    uint32_t from;
    std::vector<uint32_t> kept; // types that hold all of its numbers
  };
  const Pair pairs[] = {
      {ASHLAR_RT_U8,
       {ASHLAR_RT_F16, ASHLAR_RT_BF16, ASHLAR_RT_F32, ASHLAR_RT_F64, ASHLAR_RT_U8, ASHLAR_RT_U16, ASHLAR_RT_U32, ASHLAR_RT_U64,
        ASHLAR_RT_I16, ASHLAR_RT_I32, ASHLAR_RT_I64}},
      {ASHLAR_RT_I8,
       {ASHLAR_RT_F16, ASHLAR_RT_BF16, ASHLAR_RT_F32, ASHLAR_RT_F64, ASHLAR_RT_I8, ASHLAR_RT_I16, ASHLAR_RT_I32, ASHLAR_RT_I64}},
      {ASHLAR_RT_U16, {ASHLAR_RT_F32, ASHLAR_RT_F64, ASHLAR_RT_U16, ASHLAR_RT_U32, ASHLAR_RT_U64, ASHLAR_RT_I32, ASHLAR_RT_I64}},
      {ASHLAR_RT_I16, {ASHLAR_RT_F32, ASHLAR_RT_F64, ASHLAR_RT_I16, ASHLAR_RT_I32, ASHLAR_RT_I64}},
      {ASHLAR_RT_U32, {ASHLAR_RT_F64, ASHLAR_RT_U32, ASHLAR_RT_U64, ASHLAR_RT_I64}},
      {ASHLAR_RT_U64, {ASHLAR_RT_U64}},
      {ASHLAR_RT_BOOL,
       {ASHLAR_RT_F16, ASHLAR_RT_BF16, ASHLAR_RT_F32, ASHLAR_RT_F64, ASHLAR_RT_U8, ASHLAR_RT_U16, ASHLAR_RT_U32, ASHLAR_RT_U64,
        ASHLAR_RT_I8, ASHLAR_RT_I16, ASHLAR_RT_I32, ASHLAR_RT_I64, ASHLAR_RT_BOOL}},
      {ASHLAR_RT_F16, {ASHLAR_RT_F16, ASHLAR_RT_F32, ASHLAR_RT_F64}},
      {ASHLAR_RT_F32, {ASHLAR_RT_F32, ASHLAR_RT_F64}},
      {ASHLAR_RT_F64, {ASHLAR_RT_F64}},
      {ASHLAR_RT_I32, {ASHLAR_RT_I32, ASHLAR_RT_I64, ASHLAR_RT_F64}},
      {ASHLAR_RT_I64, {ASHLAR_RT_I64}}};
  for (const Pair &pair : pairs) {
    for (uint32_t dtype = ASHLAR_RT_F32; dtype <= ASHLAR_RT_U64; ++dtype) {
      INFO(dtypeName(pair.from) << " to " << dtype);
      const bool isKept = std::count(pair.kept.begin(), pair.kept.end(), dtype) != 0;
      CHECK(created(Transforms().add(ASHLAR_RT_TYPE_CAST, {static_cast<double>(dtype)}), {"x", pair.from, {6}}).isPlain() == isKept);
    }
  }
}

// Numbers that f32 holds, of 2 rows, 3 columns and 3 channels: what each channel has of its own behind a cast, in either order of channels.
TEST_CASE("transforms: each channel has a scale of its own behind each kind of step", "[data][transforms]") {
  const std::vector<double> numbers = {0.5, -1, 2, 0.25, 2, 8}; // means, then deviations
  const std::vector<float> image = {1.75,  -2.5,  3.25, 4.5, 5.75,   -6.25, 7.5,   8.75,  9.25,
                                    -10.5, 11.75, 12.5, 13,  -14.75, 15.5,  16.25, 17.75, 18};
  const Column column = {"image", ASHLAR_RT_F32, {2, 3, 3}};
  auto valueOf = [&](int64_t pixel, int64_t channel, bool isCast) {
    const float x = image[static_cast<size_t>(3 * pixel + channel)];
    return ((isCast ? std::trunc(x) : x) - numbers[static_cast<size_t>(channel)]) / numbers[static_cast<size_t>(3 + channel)];
  };
  for (const bool isCast : {false, true}) {
    for (const bool isPlanes : {false, true}) {
      INFO("cast " << isCast << ", planes " << isPlanes);
      Transforms transforms;
      if (isCast) {
        transforms.add(ASHLAR_RT_TYPE_CAST, {ASHLAR_RT_I32});
      }
      transforms.add(ASHLAR_RT_NORMALIZE, numbers);
      if (isPlanes) {
        transforms.add(ASHLAR_RT_HWC_TO_CHW);
      }
      std::vector<float> result(image.size());
      created(transforms, column).run(image.data(), SampleRandom(), result.data());
      for (int64_t pixel = 0; pixel < 6; ++pixel) {
        for (int64_t channel = 0; channel < 3; ++channel) {
          const int64_t place = isPlanes ? 6 * channel + pixel : 3 * pixel + channel;
          CHECK(result[static_cast<size_t>(place)] == valueOf(pixel, channel, isCast));
        }
      }
    }
  }
}

TEST_CASE("transforms: labels are spread over classes, and smoothed behind it", "[data][transforms]") {
  const uint8_t labels[] = {2, 0};
  const Column column = {"label", ASHLAR_RT_U8, {2}};
  const TransformChain chain = created(Transforms().add(ASHLAR_RT_ONE_HOT, {3}).add(ASHLAR_RT_RESCALE, {0.75, 0.125}), column);
  REQUIRE(chain.shape() == std::vector<int64_t>{2, 3});
  std::vector<float> spread(6);
  chain.run(labels, SampleRandom(), spread.data());
  CHECK(spread == std::vector<float>{0.125, 0.125, 0.875, 0.875, 0.125, 0.125});
}

// One number of 65536 places: 9 x 9 of them are about alike.
TEST_CASE("transforms: crops take all places equally often, in another order each pass", "[data][transforms]") {
  const Column column = {"image", ASHLAR_RT_I32, {9, 1}};
  std::vector<int32_t> rows(9);
  for (int i = 0; i < 9; ++i) {
    rows[i] = i;
  }
  const TransformChain chain = created(Transforms().add(ASHLAR_RT_RANDOM_CROP, {1, 1, 0}), column);
  std::map<double, int> counts;
  uint64_t other = 0;
  for (uint64_t sample = 0; sample < 9000; ++sample) {
    double row = -1, again = -1;
    chain.run(rows.data(), {true, 5, 3, sample}, &row);
    chain.run(rows.data(), {true, 5, 4, sample}, &again);
    ++counts[row];
    other += row != again;
  }
  REQUIRE(counts.size() == 9);
  for (const auto &[row, count] : counts) {
    CHECK(std::abs(count - 1000) < 150); // five standard deviations
  }
  CHECK(other > 7800); // 8 of 9
}

TEST_CASE("transforms: samples and tensor have their elements in one order", "[data][transforms]") {
  using Shape = std::vector<int64_t>;
  auto fault = [](const Shape &found, const Shape &wanted, uint32_t transforms = 0) {
    return sampleFault("image", transforms, found, "x", wanted);
  };
  const std::pair<Shape, Shape> pairs[] = {
      {{}, {}},          {{}, {1}},         {{28, 28}, {1, 28, 28}}, {{28, 28, 1}, {1, 28, 28}}, {{28, 28}, {784}},
      {{3, 4, 5}, {60}}, {{60}, {3, 4, 5}}, {{1, 60}, {3, 4, 5}},    {{3, 4, 5}, {3, 4, 5}},     {{1, 1}, {}}};
  for (const auto &[found, wanted] : pairs) {
    CHECK(fault(found, wanted).empty());
  }
  CHECK(
      fault({32, 32, 3}, {3, 32, 32}) ==
      "column \"image\" has samples of shape (32, 32, 3) but input tensor \"x\" takes (3, 32, 32), the same number of elements in another "
      "order; add layout: NHWC to the feature if channels are last in the data");
  CHECK_THAT(fault({32, 32, 3}, {1, 3, 32, 32}), Contains("add layout: NHWC"));
  CHECK_THAT(fault({3, 32, 32}, {32, 32, 3}, 2),
             Contains("(3, 32, 32) after its transforms") && Contains("leave out layout: NHWC and hwc2chw"));
  for (const auto &[found, wanted] : {std::pair<Shape, Shape>{{3, 4}, {4, 3}}, {{4, 4, 3}, {16, 3}}, {{2, 3, 4}, {4, 3, 2}}}) {
    CHECK_THAT(fault(found, wanted), Contains("another order; give samples of this shape, or of a single dim"));
  }
  CHECK_THAT(fault({3, 4}, {13}), Contains("12 elements a sample, shape (3, 4), but") && Contains("takes 13, shape (13,)"));
}

TEST_CASE("transforms: what does not fit together is refused with both values", "[data][transforms]") {
  CHECK(refusal(Transforms().add(ASHLAR_RT_RESCALE, {1, 0}).add(ASHLAR_RT_HWC_TO_CHW), {28, 28}) ==
        "transform 2 of column \"image\": hwc2chw takes images (height, width, channels) but samples are (28, 28) here; leave out hwc2chw, "
        "or layout: NHWC");
  CHECK(refusal(Transforms().add(ASHLAR_RT_HWC_TO_CHW).add(ASHLAR_RT_RESIZE, {4, 4}), {5, 5, 3}) ==
        "transform 2 of column \"image\": resize stands after hwc2chw; move it before it");
  CHECK(refusal(Transforms().add(ASHLAR_RT_RANDOM_CROP, {40, 32, 3}), {32, 32, 3}) ==
        "transform 1 of column \"image\": random_crop takes a height of 40 out of 38, those of the image and 3 of padding on each side; "
        "lower "
        "it or raise the padding");
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_RANDOM_FLIP, {0.5}), {784}),
             Contains("random_horizontal_flip takes images") && Contains("samples are (784,) here"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_NORMALIZE, {1, 2, 3, 1, 1, 1}), {8, 8, 4}),
             Contains("numbers of 3 channels but samples are (8, 8, 4) here, with 4 channels"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_NORMALIZE, {1, 2, 3, 1, 1, 1}), {8, 8}), Contains("without channels"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_NORMALIZE, {1, 0}), {8, 8}), Contains("must not be 0"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_HWC_TO_CHW).add(ASHLAR_RT_HWC_TO_CHW), {5, 5, 3}), Contains("stands after another one"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_RESIZE, {4, 4}).add(ASHLAR_RT_ONE_HOT, {4}), {5, 5}),
             Contains("one_hot stands after resize but takes class labels"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_ONE_HOT, {4}).add(ASHLAR_RT_ONE_HOT, {4}), {5}), Contains("stands after another one"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_ONE_HOT, {4}).add(ASHLAR_RT_RESIZE, {4, 4}), {5}), Contains("which makes no image"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_RESCALE, {4}), {5}), Contains("kind 1 with 1 numbers is not known"));
  CHECK_THAT(refusal(Transforms().add(ASHLAR_RT_TYPE_CAST, {99}), {5}), Contains("no data can be of type 99"));
  Transforms many;
  for (int i = 0; i <= ASHLAR_RT_MAX_TRANSFORMS; ++i) {
    many.add(ASHLAR_RT_RESCALE, {1, 0});
  }
  CHECK_THAT(refusal(many, {5}), Contains("257 transforms; 256 are possible"));
}

TEST_CASE("transforms: nothing is allocated on the way", "[data][transforms]") {
  std::vector<TransformChain> chains;
  for (const char *name : {"training", "normalized first", "two paddings", "cast"}) {
    chains.push_back(created(chainOf(name), imageColumn(ASHLAR_RT_U8, 3)));
  }
  const std::vector<uint8_t> image = imageOf<uint8_t>(3, 3);
  std::vector<float> result(1000);
  const uint64_t before = ashlar::test::allocations();
  for (uint64_t sample = 0; sample < 100; ++sample) {
    for (const TransformChain &chain : chains) {
      chain.run(image.data(), {true, 1, 0, sample}, result.data());
    }
  }
  REQUIRE(ashlar::test::allocations() == before);
}

} // namespace ashlar::test::transforms_test
