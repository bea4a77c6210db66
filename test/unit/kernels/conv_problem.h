// SPDX-License-Identifier: Apache-2.0
//
// Convolutions for tests: random descriptors, and their operands with the exact result.

#ifndef ASHLAR_TEST_UNIT_KERNELS_CONV_PROBLEM_H
#define ASHLAR_TEST_UNIT_KERNELS_CONV_PROBLEM_H

#include "runtime/abi/memory_sizes.h"
#include "runtime/base/half.h"
#include "runtime/kernels/cpu/conv/conv.h"
#include "runtime/kernels/cpu/conv/conv_kernel.h"
#include "runtime/kernels/reference/conv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace ashlar::rt::test {

using Floats = std::vector<float>;
using Halves = std::vector<uint16_t>;

inline uint16_t narrowed(float value, uint32_t type) {
  return type == ASHLAR_RT_F16 ? F16(value).bits : Bf16(value).bits;
}

inline float widened(uint16_t bits, uint32_t type) {
  F16 f16;
  Bf16 bf16;
  f16.bits = bf16.bits = bits;
  return type == ASHLAR_RT_F16 ? static_cast<float>(f16) : static_cast<float>(bf16);
}

// Values of x, w and y that belong together.
struct Sizes {
  int64_t x, w, y;
  explicit Sizes(const ashlar_rt_conv_desc &d)
      : x(d.batch * d.dims[0].in * d.dims[1].in * d.dims[2].in * d.groups * d.channels_in),
        w(d.groups * d.channels_out * d.channels_in * d.dims[0].kernel * d.dims[1].kernel * d.dims[2].kernel),
        y(d.batch * d.dims[0].out * d.dims[1].out * d.dims[2].out * d.groups * d.channels_out) {}
};

inline Floats randomFloats(int64_t count, std::mt19937 &random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats values(count);
  std::generate(values.begin(), values.end(), [&] { return uniform(random); });
  return values;
}

inline Floats absolute(Floats values) {
  std::transform(values.begin(), values.end(), values.begin(), [](float value) { return std::fabs(value); });
  return values;
}

// A tensor: its values, rounded to the descriptor's type, and these values in that type.
struct Operand {
  Floats values;
  Halves halves;

  void round(uint32_t narrow) {
    halves.resize(narrow != 0 ? values.size() : 0);
    for (size_t i = 0; i < halves.size(); ++i) {
      halves[i] = narrowed(values[i], narrow);
      values[i] = widened(halves[i], narrow);
    }
  }
  const void *at(bool isNarrow, int64_t i = 0) const {
    return isNarrow ? static_cast<const void *>(halves.data() + i) : static_cast<const void *>(values.data() + i);
  }
  void *at(bool isNarrow, int64_t i = 0) {
    return isNarrow ? static_cast<void *>(halves.data() + i) : static_cast<void *>(values.data() + i);
  }
};

// The operands of one convolution, random in [-1, 1], and its result filled with NaN so that a place that nobody writes shows. The result,
// with scale, bias and residual, can be f32 or have the type of bf16 or f16 operands: set desc.narrow_out before a run.
struct Problem {
  ashlar_rt_conv_desc desc;
  Operand a, b, scale, bias, residual, out;

  Problem(const ashlar_rt_conv_desc &desc, std::mt19937 &random) : desc(desc) {
    const Sizes sizes(desc);
    const bool forward = desc.kind == ASHLAR_RT_CONV_FORWARD, data = desc.kind == ASHLAR_RT_CONV_DATA;
    a.values = randomFloats(data ? sizes.y : sizes.x, random);
    b.values = randomFloats(forward || data ? sizes.w : sizes.y, random);
    out.values.resize(forward ? sizes.y : data ? sizes.x : sizes.w);
    scale.values = randomFloats(desc.groups * (forward ? desc.channels_out : desc.channels_in), random);
    bias.values = randomFloats(desc.groups * (forward ? desc.channels_out : desc.channels_in), random);
    residual.values = randomFloats(static_cast<int64_t>(out.values.size()), random);
    round();
  }

  // Rounds the operands, and clears the result.
  void round() {
    for (Operand *operand : {&a, &b, &scale, &bias, &residual}) {
      operand->round(desc.narrow);
    }
    clear();
  }
  void clear() {
    std::fill(out.values.begin(), out.values.end(), std::numeric_limits<float>::quiet_NaN());
    out.halves.assign(desc.narrow != 0 ? out.values.size() : 0, 0x7fff);
  }

  bool isNarrow() const { return desc.narrow != 0; }
  bool isOutNarrow() const { return desc.narrow_out != 0; }
  size_t size() const { return out.values.size(); }
  float outOf(size_t i) const { return isOutNarrow() ? widened(out.halves[i], desc.narrow) : out.values[i]; }

  // Returns whether two results are the same, bit by bit.
  bool equals(const Operand &other) const {
    return isOutNarrow() ? out.halves == other.halves : std::memcmp(out.values.data(), other.values.data(), size() * sizeof(float)) == 0;
  }

  // Runs a part of the whole, of which `batch` samples are from sample `first` on.
  void runPart(Conv &conv, int part, const void *weights = nullptr) {
    conv.runPart(part, a.at(isNarrow()), weights != nullptr ? weights : b.at(isNarrow()), scale.at(isOutNarrow()), bias.at(isOutNarrow()),
                 residual.at(isOutNarrow()), out.at(isOutNarrow()));
  }
  void run(Conv &conv, const void *weights = nullptr) {
    for (int part = 0; part < conv.parts(); ++part) {
      runPart(conv, part, weights);
    }
  }

  // Returns the exact result, rounded to f32.
  Floats exact() const {
    Floats result(size());
    referenceConv(desc, a.values.data(), b.values.data(), scale.values.data(), bias.values.data(), residual.values.data(), result.data());
    return result;
  }

  // Returns the largest number of products that one element of the result adds up.
  double chain() const {
    const double places = static_cast<double>(convPlaces(desc));
    if (desc.kind == ASHLAR_RT_CONV_WEIGHTS) {
      return static_cast<double>(desc.batch * desc.dims[0].out * desc.dims[1].out * desc.dims[2].out);
    }
    return places * static_cast<double>(desc.kind == ASHLAR_RT_CONV_DATA ? desc.channels_out : desc.channels_in);
  }

  // Returns the largest error of a result in f32 as a share of what is allowed, as for matrix products: a chain of chain() + 2 rounded
  // operations on the sum of absolute values, times the largest slope of the activation (1.13, gelu), plus 5e-7 max(|f|, 1) for the
  // activation. Each product and sum of a kernel that flushes may lack 2^-126, and each operand 2^-126 times the other one, at most 1 here.
  double worstShare(bool flushes = false) const {
    const Floats result = exact();
    Floats sums(size());
    ashlar_rt_conv_desc plain = desc;
    plain.epilogue = ASHLAR_RT_EPILOGUE_NONE;
    referenceConv(plain, absolute(a.values).data(), absolute(b.values).data(), absolute(scale.values).data(), absolute(bias.values).data(),
                  absolute(residual.values).data(), sums.data());
    double worst = 0;
    for (size_t i = 0; i < size(); ++i) {
      const double smooth = desc.epilogue > ASHLAR_RT_EPILOGUE_RELU ? 5e-7 * std::max(1.0f, std::fabs(result[i])) : 0;
      const double small = flushes ? 4.0 * (chain() + 1) * 0x1p-126 : 0x1p-140;
      const double allowed = 1.13 * ((chain() + 3) * 0x1p-24 * sums[i] + small) + smooth;
      const double error = std::fabs(static_cast<double>(out.values[i]) - result[i]);
      worst = std::isnan(error) ? 1e9 : std::max(worst, error / allowed);
    }
    return worst;
  }

  // Returns whether the result in bf16 or f16 is the one in f32, rounded.
  bool isRounded() const {
    for (size_t i = 0; i < size(); ++i) {
      const bool isNan = std::isnan(out.values[i]) && std::isnan(widened(out.halves[i], desc.narrow));
      if (!isNan && out.halves[i] != narrowed(out.values[i], desc.narrow)) {
        return false;
      }
    }
    return true;
  }
};

// A kernel for one type of operands.
struct TestedKernel {
  const ConvKernel *kernel;
  uint32_t narrow;
  bool flushes = false; // numbers below 2^-126 are 0
};

// Returns the kernels that this processor can run, of f32, or of bf16 and f16.
inline std::vector<TestedKernel> kernelsOf(bool isNarrow) {
  std::vector<const ConvKernels *> sets = {&convKernelsGeneric()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    sets.push_back(&convKernelsAvx2());
  }
  if (__builtin_cpu_supports("avx512f")) {
    sets.push_back(&convKernelsAvx512());
  }
#endif
  std::vector<TestedKernel> kernels;
  for (const ConvKernels *set : sets) {
    if (isNarrow) {
      kernels.push_back({&set->bf16, ASHLAR_RT_BF16});
      kernels.push_back({&set->f16, ASHLAR_RT_F16});
    } else {
      kernels.push_back({&set->f32, 0});
    }
  }
#if defined(__x86_64__)
  if (isNarrow && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw")) {
    kernels.push_back({&convKernelAvx512Bf16(), ASHLAR_RT_BF16, /*flushes=*/true});
  }
#endif
  return kernels;
}

// Returns all of them.
inline std::vector<TestedKernel> allKernels() {
  std::vector<TestedKernel> kernels = kernelsOf(/*isNarrow=*/false), others = kernelsOf(/*isNarrow=*/true);
  kernels.insert(kernels.end(), others.begin(), others.end());
  return kernels;
}

inline Conv prepared(const ashlar_rt_conv_desc &desc, int threads, const ConvKernel &kernel, GemmWorkspace *workspace = nullptr) {
  Conv conv;
  const Status status = Conv::prepare(desc, threads, kernel, conv, workspace);
  INFO(status.message());
  REQUIRE(status.ok());
  return conv;
}

inline std::string describe(const ashlar_rt_conv_desc &d) {
  std::string text = "kind " + std::to_string(d.kind) + " batch " + std::to_string(d.batch) + " groups " + std::to_string(d.groups) +
                     " channels " + std::to_string(d.channels_in) + " -> " + std::to_string(d.channels_out) + " scale " +
                     std::to_string(d.has_scale) + " bias " + std::to_string(d.has_bias) + " residual " + std::to_string(d.has_residual) +
                     " epilogue " + std::to_string(d.epilogue) + " type " + std::to_string(d.narrow) + " narrow out " +
                     std::to_string(d.narrow_out);
  for (const ashlar_rt_conv_dim &dim : d.dims) {
    text += " | " + std::to_string(dim.in) + " -> " + std::to_string(dim.out) + " k" + std::to_string(dim.kernel) + " s" +
            std::to_string(dim.stride) + " d" + std::to_string(dim.dilation) + " l" + std::to_string(dim.low);
  }
  return text;
}

constexpr ashlar_rt_conv_dim kUnit = {1, 1, 1, 1, 1, 0};

// Returns a dim with windows that stand at least once in `in` elements and their padding. `low` may leave elements out.
inline ashlar_rt_conv_dim randomDim(int64_t largest, std::mt19937 &random) {
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

inline ashlar_rt_conv_desc randomDesc(std::mt19937 &random) {
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

inline ashlar_rt_conv_desc square(uint32_t kind, int64_t batch, int64_t in, int64_t channelsIn, int64_t channelsOut, int64_t kernel,
                                  int64_t stride) {
  const int64_t low = (kernel - 1) / 2;
  const ashlar_rt_conv_dim dim = {in, (in + 2 * low - kernel) / stride + 1, kernel, stride, 1, low};
  return {kind, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, 0, 2, batch, 1, channelsIn, channelsOut, {kUnit, dim, dim}, 0, 0};
}

} // namespace ashlar::rt::test

#endif // ASHLAR_TEST_UNIT_KERNELS_CONV_PROBLEM_H
