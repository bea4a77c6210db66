// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and their gradients against the plain loops of runtime/kernels/reference, for every kernel that this processor can run.

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cpu/conv/conv.h"
#include "runtime/kernels/cpu/conv/conv_kernel.h"
#include "runtime/kernels/reference/conv.h"
#include "test/unit/data/allocations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

using namespace ashlar::rt;

namespace {

using Floats = std::vector<float>;

// Values of x, w and y that belong together.
struct Sizes {
  int64_t x, w, y;
  explicit Sizes(const ashlar_rt_conv_desc &d)
      : x(d.batch * d.dims[0].in * d.dims[1].in * d.dims[2].in * d.groups * d.channels_in),
        w(d.groups * d.channels_out * d.channels_in * d.dims[0].kernel * d.dims[1].kernel * d.dims[2].kernel),
        y(d.batch * d.dims[0].out * d.dims[1].out * d.dims[2].out * d.groups * d.channels_out) {}
};

Floats randomFloats(int64_t count, std::mt19937 &random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats values(count);
  std::generate(values.begin(), values.end(), [&] { return uniform(random); });
  return values;
}

Floats absolute(Floats values) {
  std::transform(values.begin(), values.end(), values.begin(), [](float value) { return std::fabs(value); });
  return values;
}

// The operands of one convolution, random in [-1, 1], and its result filled with NaN so that a place that nobody writes shows.
struct Problem {
  ashlar_rt_conv_desc desc;
  Floats a, b, scale, bias, residual, out;

  Problem(const ashlar_rt_conv_desc &desc, std::mt19937 &random) : desc(desc) {
    const Sizes sizes(desc);
    const bool forward = desc.kind == ASHLAR_RT_CONV_FORWARD, data = desc.kind == ASHLAR_RT_CONV_DATA;
    a = randomFloats(data ? sizes.y : sizes.x, random);
    b = randomFloats(forward || data ? sizes.w : sizes.y, random);
    out.assign(forward ? sizes.y : data ? sizes.x : sizes.w, std::numeric_limits<float>::quiet_NaN());
    scale = randomFloats(desc.groups * (forward ? desc.channels_out : desc.channels_in), random);
    bias = randomFloats(desc.groups * (forward ? desc.channels_out : desc.channels_in), random);
    residual = randomFloats(out.size(), random);
  }

  // Returns the largest number of products that one element of the result adds up.
  double chain() const {
    const double places = static_cast<double>(convPlaces(desc));
    if (desc.kind == ASHLAR_RT_CONV_WEIGHTS) {
      return static_cast<double>(desc.batch * desc.dims[0].out * desc.dims[1].out * desc.dims[2].out);
    }
    return places * static_cast<double>(desc.kind == ASHLAR_RT_CONV_DATA ? desc.channels_out : desc.channels_in);
  }

  // Returns the largest error of `out` as a share of what is allowed, as for matrix products: a chain of chain() + 2 rounded operations on
  // the sum of absolute values, times the largest slope of the activation (1.13, gelu), plus 5e-7 max(|f|, 1) for the activation.
  double worstShare() const {
    Floats exact(out.size()), sums(out.size());
    referenceConv(desc, a.data(), b.data(), scale.data(), bias.data(), residual.data(), exact.data());
    ashlar_rt_conv_desc plain = desc;
    plain.epilogue = ASHLAR_RT_EPILOGUE_NONE;
    referenceConv(plain, absolute(a).data(), absolute(b).data(), absolute(scale).data(), absolute(bias).data(), absolute(residual).data(),
                  sums.data());
    double worst = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const double smooth = desc.epilogue > ASHLAR_RT_EPILOGUE_RELU ? 5e-7 * std::max(1.0f, std::fabs(exact[i])) : 0;
      const double allowed = 1.13 * (chain() + 3) * 0x1p-24 * sums[i] + smooth;
      const double error = std::fabs(static_cast<double>(out[i]) - exact[i]);
      worst = std::isnan(error) ? 1e9 : std::max(worst, error == 0 ? 0 : error / allowed);
    }
    return worst;
  }

  void run(Conv &conv) { conv.run(a.data(), b.data(), scale.data(), bias.data(), residual.data(), out.data()); }
};

std::vector<const ConvKernel *> availableKernels() {
  std::vector<const ConvKernel *> kernels = {&convKernelGeneric()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernels.push_back(&convKernelAvx2());
  }
  if (__builtin_cpu_supports("avx512f")) {
    kernels.push_back(&convKernelAvx512());
  }
#endif
  return kernels;
}

Conv prepared(const ashlar_rt_conv_desc &desc, int threads, const ConvKernel &kernel, GemmWorkspace *workspace = nullptr) {
  Conv conv;
  const Status status = Conv::prepare(desc, threads, kernel, conv, workspace);
  INFO(status.message());
  REQUIRE(status.ok());
  return conv;
}

std::string describe(const ashlar_rt_conv_desc &d) {
  std::string text = "kind " + std::to_string(d.kind) + " batch " + std::to_string(d.batch) + " groups " + std::to_string(d.groups) +
                     " channels " + std::to_string(d.channels_in) + " -> " + std::to_string(d.channels_out) + " scale " +
                     std::to_string(d.has_scale) + " bias " + std::to_string(d.has_bias) + " residual " + std::to_string(d.has_residual) +
                     " epilogue " + std::to_string(d.epilogue);
  for (const ashlar_rt_conv_dim &dim : d.dims) {
    text += " | " + std::to_string(dim.in) + " -> " + std::to_string(dim.out) + " k" + std::to_string(dim.kernel) + " s" +
            std::to_string(dim.stride) + " d" + std::to_string(dim.dilation) + " l" + std::to_string(dim.low);
  }
  return text;
}

constexpr ashlar_rt_conv_dim kUnit = {1, 1, 1, 1, 1, 0};

// Returns a dim with windows that stand at least once in `in` elements and their padding. `low` may leave elements out.
ashlar_rt_conv_dim randomDim(int64_t largest, std::mt19937 &random) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % bound); };
  ashlar_rt_conv_dim dim;
  do {
    dim.in = 1 + below(largest);
    dim.kernel = 1 + below(4);
    dim.stride = 1 + below(3);
    dim.dilation = 1 + below(3);
    dim.low = below(5) - 1;
    const int64_t high = below(4) - 1;
    dim.out = (dim.in + dim.low + high - (dim.kernel - 1) * dim.dilation - 1) / dim.stride + 1;
  } while (dim.in + dim.low < 1 || dim.out < 1 || (dim.out - 1) * dim.stride + (dim.kernel - 1) * dim.dilation - dim.low < 0);
  return dim;
}

ashlar_rt_conv_desc randomDesc(std::mt19937 &random) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % bound); };
  ashlar_rt_conv_desc desc = {};
  desc.kind = ASHLAR_RT_CONV_FORWARD + static_cast<uint32_t>(random() % 3);
  const int64_t spatial = 1 + below(3);
  for (int64_t d = 0; d < 3; ++d) {
    desc.dims[d] = d < 3 - spatial ? kUnit : randomDim(spatial == 1 ? 60 : spatial == 2 ? 14 : 6, random);
  }
  desc.batch = 1 + below(3);
  switch (random() % 4) {
  case 0: // depthwise
    desc.groups = 2 + below(70);
    desc.channels_in = desc.channels_out = 1;
    break;
  case 1:
    desc.groups = 1 + below(5);
    desc.channels_in = 1 + below(9);
    desc.channels_out = 1 + below(20);
    break;
  case 2: // few channels: columns are folded
    desc.groups = 1;
    desc.channels_in = 1 + below(4);
    desc.channels_out = 1 + below(70);
    break;
  default:
    desc.groups = 1;
    desc.channels_in = 1 + below(random() % 8 == 0 ? 450 : 40);
    desc.channels_out = 1 + below(random() % 8 == 0 ? 450 : 70);
  }
  if (desc.kind != ASHLAR_RT_CONV_WEIGHTS) {
    desc.has_scale = random() % 3 == 0;
    desc.has_bias = random() % 2;
    desc.has_residual = random() % 2;
    desc.epilogue = random() % 6;
  }
  return desc;
}

ashlar_rt_conv_desc square(uint32_t kind, int64_t batch, int64_t in, int64_t channelsIn, int64_t channelsOut, int64_t kernel,
                           int64_t stride) {
  const int64_t low = (kernel - 1) / 2;
  const ashlar_rt_conv_dim dim = {in, (in + 2 * low - kernel) / stride + 1, kernel, stride, 1, low};
  return {kind, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, 0, 2, batch, 1, channelsIn, channelsOut, {kUnit, dim, dim}};
}

} // namespace

TEST_CASE("conv kernels: random shapes, windows and epilogues agree with the plain loops", "[kernels][conv]") {
  // Every kernel of this processor: depthwise, grouped, folded and plain ones, one to three spatial dims, strides, dilation, padding on one
  // side or of negative size.
  std::mt19937 random(1);
  for (const ConvKernel *kernel : availableKernels()) {
    double worst = 0;
    for (int round = 0; round < 250; ++round) {
      const ashlar_rt_conv_desc desc = randomDesc(random);
      Problem problem(desc, random);
      Conv conv = prepared(desc, 1, *kernel);
      problem.run(conv);
      const double share = problem.worstShare();
      INFO(kernel->name << " round " << round << " " << describe(desc));
      REQUIRE(share <= 1);
      worst = std::max(worst, share);
    }
    WARN(kernel->name << ": largest error " << static_cast<int>(100 * worst) << " % of what is allowed");
  }
}

TEST_CASE("conv kernels: long chains and many panels agree with the plain loops", "[kernels][conv]") {
  // Beyond one block of pixels, of the chain, of positions, of ordered panels, and of the table; bias, residual and activation once.
  std::mt19937 random(2);
  std::vector<ashlar_rt_conv_desc> descs;
  for (uint32_t kind = ASHLAR_RT_CONV_FORWARD; kind <= ASHLAR_RT_CONV_WEIGHTS; ++kind) {
    descs.push_back(square(kind, 2, 15, 700, 130, 1, 1));
    descs.push_back(square(kind, 1, 5, 260, 300, 3, 1));
    descs.push_back(square(kind, 2, 9, 1024, 40, 1, 2)); // pixels are copied, in both directions
    descs.push_back(square(kind, 1, 9, 40, 1024, 1, 1));
    descs.push_back(square(kind, 1, 9, 40, 500, 5, 2));
    descs.push_back(square(kind, 2, 40, 3, 33, 7, 2));
    ashlar_rt_conv_desc places = square(kind, 1, 1, 5, 6, 1, 1);
    places.dims[0] = places.dims[1] = places.dims[2] = {11, 5, 9, 1, 1, 1};
    descs.push_back(places);
    places.groups = 40;
    places.channels_in = places.channels_out = 1;
    descs.push_back(places);
  }
  for (ashlar_rt_conv_desc &desc : descs) {
    if (desc.kind != ASHLAR_RT_CONV_WEIGHTS) {
      desc.has_scale = desc.has_bias = desc.has_residual = 1;
      desc.epilogue = ASHLAR_RT_EPILOGUE_RELU;
    }
  }
  for (const ConvKernel *kernel : availableKernels()) {
    for (const ashlar_rt_conv_desc &desc : descs) {
      Problem problem(desc, random);
      Conv conv = prepared(desc, 1, *kernel);
      problem.run(conv);
      INFO(kernel->name << " " << describe(desc));
      REQUIRE(problem.worstShare() <= 1);
    }
  }
}

TEST_CASE("conv: any number of threads gives the same bits", "[kernels][conv]") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const ashlar_rt_conv_desc desc = randomDesc(random);
    Problem problem(desc, random);
    const ConvKernel &kernel = *availableKernels()[round % availableKernels().size()];
    Conv one = prepared(desc, 1, kernel);
    problem.run(one);
    const Floats expected = problem.out;
    for (int threads = 2; threads <= 5; ++threads) {
      std::fill(problem.out.begin(), problem.out.end(), std::numeric_limits<float>::quiet_NaN());
      Conv conv = prepared(desc, threads, kernel);
      INFO(describe(desc) << " threads " << threads << " parts " << conv.parts());
      REQUIRE(conv.parts() >= 1);
      REQUIRE(conv.parts() <= threads);
      std::vector<std::thread> pool;
      for (int part = 0; part < conv.parts(); ++part) {
        pool.emplace_back([&, part] {
          conv.runPart(part, problem.a.data(), problem.b.data(), problem.scale.data(), problem.bias.data(), problem.residual.data(),
                       problem.out.data());
        });
      }
      for (std::thread &thread : pool) {
        thread.join();
      }
      REQUIRE(std::memcmp(problem.out.data(), expected.data(), expected.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("conv: the bits of a sample do not depend on the rest of the batch", "[kernels][conv]") {
  // What makes a data-parallel run repeat the numbers of one rank.
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    ashlar_rt_conv_desc desc = randomDesc(random);
    desc.kind = ASHLAR_RT_CONV_FORWARD + round % 2;
    desc.batch = 4;
    Problem problem(desc, random);
    const ConvKernel &kernel = *availableKernels()[round / 2 % availableKernels().size()];
    Conv whole = prepared(desc, 2, kernel);
    problem.run(whole);
    desc.batch = 1;
    Conv single = prepared(desc, 1, kernel);
    const size_t in = problem.a.size() / 4, out = problem.out.size() / 4;
    Floats sample(out);
    for (size_t i = 0; i < 4; ++i) {
      single.run(problem.a.data() + i * in, problem.b.data(), problem.scale.data(), problem.bias.data(), problem.residual.data() + i * out,
                 sample.data());
      INFO(describe(desc) << " sample " << i);
      REQUIRE(std::memcmp(sample.data(), problem.out.data() + i * out, out * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("conv: special values reach the pixels whose windows hold them, and no others", "[kernels][conv]") {
  // One NaN and one infinity in the input of all kinds; weights are positive, so that an infinity stays one.
  std::mt19937 random(5);
  for (const ConvKernel *kernel : availableKernels()) {
    for (int round = 0; round < 60; ++round) {
      const ashlar_rt_conv_desc desc = randomDesc(random);
      Problem problem(desc, random);
      problem.b = absolute(problem.b);
      std::replace(problem.b.begin(), problem.b.end(), 0.0f, 1.0f);
      problem.a[random() % problem.a.size()] = std::numeric_limits<float>::infinity();
      problem.a[random() % problem.a.size()] = std::numeric_limits<float>::quiet_NaN();
      Conv conv = prepared(desc, 2, *kernel);
      problem.run(conv);
      Floats exact(problem.out.size());
      referenceConv(desc, problem.a.data(), problem.b.data(), problem.scale.data(), problem.bias.data(), problem.residual.data(),
                    exact.data());
      for (size_t i = 0; i < exact.size(); ++i) {
        INFO(kernel->name << " " << describe(desc) << " element " << i << " is " << problem.out[i] << ", exactly " << exact[i]);
        REQUIRE(std::isnan(problem.out[i]) == std::isnan(exact[i]));
        REQUIRE((!std::isinf(exact[i]) || problem.out[i] == exact[i]));
        REQUIRE(std::isinf(problem.out[i]) == std::isinf(exact[i]));
      }
    }
  }
}

TEST_CASE("conv: what is in the workspace, and running twice, change nothing", "[kernels][conv]") {
  // Convolutions that share a workspace with others find it full of their numbers.
  std::mt19937 random(6);
  GemmWorkspace workspace;
  for (int round = 0; round < 40; ++round) {
    const ashlar_rt_conv_desc desc = randomDesc(random);
    Problem problem(desc, random);
    Conv conv = prepared(desc, 2, *availableKernels().back(), &workspace);
    REQUIRE(workspace.bytes() >= convWorkspaceBytes(desc) * conv.parts());
    float *memory = workspace.data();
    std::fill(memory, memory + workspace.bytes() / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    problem.run(conv);
    INFO(describe(desc));
    REQUIRE(problem.worstShare() <= 1);
    const Floats first = problem.out;
    problem.run(conv);
    REQUIRE(std::memcmp(problem.out.data(), first.data(), first.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("conv: fixed weights are ordered once, and change no bit", "[kernels][conv]") {
  std::mt19937 random(8);
  std::vector<ashlar_rt_conv_desc> descs = {square(ASHLAR_RT_CONV_FORWARD, 1, 5, 512, 500, 3, 1), // several blocks of panels
                                            square(ASHLAR_RT_CONV_DATA, 1, 5, 500, 512, 3, 1)};
  for (int round = 0; round < 60; ++round) {
    descs.push_back(randomDesc(random));
  }
  for (ashlar_rt_conv_desc &desc : descs) {
    desc.kind = desc.kind == ASHLAR_RT_CONV_WEIGHTS ? uint32_t{ASHLAR_RT_CONV_FORWARD} : desc.kind;
    for (const ConvKernel *kernel : availableKernels()) {
      const int threads = 1 + static_cast<int>(random() % 3);
      INFO(kernel->name << " " << threads << " threads " << describe(desc));
      Problem problem(desc, random);
      Conv plain = prepared(desc, threads, *kernel);
      problem.run(plain);
      const Floats expected = problem.out;
      desc.fixed_weights = 1;
      Conv fixed = prepared(desc, threads, *kernel);
      const uint64_t bytes = orderedWeightBytes(desc);
      desc.fixed_weights = 0;
      GemmWorkspace memory;
      REQUIRE(memory.reserve(bytes).ok());
      std::fill(memory.data(), memory.data() + bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
      const auto order = [&] {
        for (int piece = 0; piece < fixed.orderedPieces(); ++piece) {
          fixed.order(piece, problem.b.data(), memory.data());
        }
      };
      const auto runsTo = [&](const Floats &wanted) {
        std::fill(problem.out.begin(), problem.out.end(), -7.0f);
        fixed.run(problem.a.data(), memory.data(), problem.scale.data(), problem.bias.data(), problem.residual.data(), problem.out.data());
        return std::memcmp(problem.out.data(), wanted.data(), wanted.size() * sizeof(float)) == 0;
      };
      order();
      REQUIRE(runsTo(expected));
      std::reverse(problem.b.begin(), problem.b.end()); // it does not look at the weights again until they are ordered
      REQUIRE(runsTo(expected));
      order();
      problem.run(plain);
      const Floats changed = problem.out;
      REQUIRE(runsTo(changed));
    }
  }
}

TEST_CASE("conv: refuses what only a broken image can hold", "[kernels][conv]") {
  Conv conv;
  const auto message = [&](const ashlar_rt_conv_desc &desc) {
    const Status status = Conv::prepare(desc, 1, conv);
    REQUIRE(status.code() == StatusCode::kInternal);
    return status.message();
  };
  const ashlar_rt_conv_desc good = square(ASHLAR_RT_CONV_FORWARD, 1, 4, 2, 2, 3, 1);
  ashlar_rt_conv_desc bad = good;
  bad.kind = 4;
  CHECK(message(bad) == "convolution of kind 4: the last known one is 3");
  bad = square(ASHLAR_RT_CONV_WEIGHTS, 1, 4, 2, 2, 3, 1);
  bad.fixed_weights = 1;
  CHECK(message(bad) == "gradient of a filter with fixed weights 1: it has none");
  bad = good;
  bad.epilogue = 99;
  CHECK(message(bad) == "convolution with epilogue 99: the last known one is 5");
  bad = good;
  bad.groups = 0;
  CHECK(message(bad) == "convolution with batch 1, 0 groups, 2 channels in and 2 out: every size must be at least 1");
  bad = good;
  bad.dims[1].stride = 0;
  CHECK(message(bad) == "convolution over a dim with in 4, out 4, kernel 3, stride 0, dilation 1: every one must be at least 1");
  bad = square(ASHLAR_RT_CONV_WEIGHTS, 1, 4, 2, 2, 3, 1);
  bad.has_bias = 1;
  CHECK(message(bad) == "gradient of a filter with scale 0, bias 1, residual 0, epilogue 0: it has none of them");
}

TEST_CASE("conv: running does not allocate", "[kernels][conv]") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const ashlar_rt_conv_desc desc = randomDesc(random);
    Problem problem(desc, random);
    Conv conv = prepared(desc, 2, *availableKernels().back());
    const uint64_t before = ashlar::test::allocations();
    problem.run(conv);
    REQUIRE(ashlar::test::allocations() == before);
  }
}
