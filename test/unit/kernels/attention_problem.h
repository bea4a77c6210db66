// SPDX-License-Identifier: Apache-2.0
//
// Attention for tests: random descriptors, and their operands with the exact result, which has a bound on the error of each number.

#ifndef ASHLAR_TEST_UNIT_KERNELS_ATTENTION_PROBLEM_H
#define ASHLAR_TEST_UNIT_KERNELS_ATTENTION_PROBLEM_H

#include "runtime/base/half.h"
#include "runtime/base/philox.h"
#include "runtime/kernels/cpu/attention/attention.h"
#include "runtime/kernels/cpu/attention/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace ashlar::rt::test::attention {

constexpr double kUnit = 0x1p-24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline std::vector<const AttentionKernel *> availableKernels() {
  std::vector<const AttentionKernel *> kernels = {&attentionKernelGeneric()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernels.push_back(&attentionKernelAvx2());
  }
  if (__builtin_cpu_supports("avx512f")) {
    kernels.push_back(&attentionKernelAvx512());
  }
#endif
  return kernels;
}

// Numbers of one of the types f32 and bf16.
struct Tensor {
  uint32_t dtype;
  std::vector<float> wide;
  std::vector<Bf16> narrow;

  explicit Tensor(uint32_t dtype = ASHLAR_RT_F32, int64_t count = 0, float value = kNan) : dtype(dtype) {
    if (dtype == ASHLAR_RT_F32) {
      wide.assign(count, value);
    } else {
      narrow.assign(count, Bf16(value));
    }
  }
  int64_t size() const { return static_cast<int64_t>(dtype == ASHLAR_RT_F32 ? wide.size() : narrow.size()); }
  void *data() { return dtype == ASHLAR_RT_F32 ? static_cast<void *>(wide.data()) : narrow.data(); }
  float at(int64_t i) const { return dtype == ASHLAR_RT_F32 ? wide[i] : static_cast<float>(narrow[i]); }
  void set(int64_t i, float value) {
    if (dtype == ASHLAR_RT_F32) {
      wide[i] = value;
    } else {
      narrow[i] = Bf16(value);
    }
  }
  // The error of rounding x to the type.
  double rounding(double x) const { return (dtype == ASHLAR_RT_F32 ? kUnit : 0x1p-8) * std::fabs(x); }
  bool hasBitsOf(const Tensor &other) const {
    return std::memcmp(wide.data(), other.wide.data(), wide.size() * sizeof(float)) == 0 &&
           std::memcmp(narrow.data(), other.narrow.data(), narrow.size() * sizeof(Bf16)) == 0;
  }
};

// The operands of an attention and its gradients; the results are filled with NaN so that a place that nobody writes shows.
struct Problem {
  ashlar_rt_attention_desc desc;
  Tensor q, k, v, out, dOut, dq, dk, dv;
  Tensor added;              // the mask, or
  std::vector<uint8_t> seen; // a mask of bool
  std::vector<int64_t> rowPositions, keyPositions;
  std::vector<int64_t> rowIndex, keyIndex; // of a dropout, and
  uint64_t seed = 0, step = 0;
  uint32_t stream = 0;
  std::vector<float> lse;
  float before = kNan; // in the workspace, which does not matter

  Problem(const ashlar_rt_attention_desc &desc, std::mt19937 &random, float size = 1) : desc(desc) {
    const int64_t ofQ = desc.batch * desc.heads * desc.rows, ofK = desc.batch * desc.key_heads * desc.keys;
    q = dq = Tensor(desc.dtype, ofQ * desc.width);
    k = dk = Tensor(desc.dtype, ofK * desc.width);
    v = dv = Tensor(desc.dtype, ofK * desc.value_width);
    out = dOut = Tensor(desc.dtype, ofQ * desc.value_width);
    lse.assign(ofQ, kNan);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (Tensor *tensor : {&q, &k, &v, &dOut}) {
      for (int64_t i = 0; i < tensor->size(); ++i) {
        tensor->set(i, uniform(random) * (tensor == &dOut ? 1 : size));
      }
    }
    if (desc.dropout != 0) {
      addDraw(random);
    }
    for (int64_t i = 0, first = random() % 50; i < desc.rows; ++i) {
      rowPositions.push_back(first + i);
    }
    for (int64_t j = 0, first = random() % 50; j < desc.keys; ++j) {
      keyPositions.push_back(first + j);
    }
  }

  // Returns how far a key is behind a row.
  int64_t distanceOf(int64_t i, int64_t j) const { return desc.positions == 0 ? j - i : keyPositions[j] - rowPositions[i]; }

  // Gives it the indices of a shard of a large tensor: rows and keys that begin anywhere.
  void addDraw(std::mt19937 &random) {
    const int64_t firstRow = static_cast<int64_t>(random()) * 1000, firstKey = random() % 1000;
    for (size_t i = 0; i < lse.size(); ++i) {
      rowIndex.push_back((firstRow + static_cast<int64_t>(i)) * 100000);
    }
    for (int64_t j = 0; j < desc.keys; ++j) {
      keyIndex.push_back(firstKey + j);
    }
    seed = static_cast<uint64_t>(random()) << 32 | random();
    step = random();
    stream = random();
  }

  // Returns how often the weight of a row and a key counts.
  double countOf(int64_t row, int64_t j) const {
    if (desc.dropout == 0) {
      return 1;
    }
    const float drawn = uniformFloat(philoxWords(seed, stream, static_cast<uint32_t>(step), rowIndex[row] + keyIndex[j]));
    return drawn >= desc.dropout ? desc.kept : 0;
  }

  // Gives it a random mask that is broadcast along the dims whose bits are set.
  void addMask(uint32_t dtype, unsigned broadcast, std::mt19937 &random) {
    const int64_t sizes[4] = {desc.batch, desc.heads, desc.rows, desc.keys};
    int64_t count = 1;
    for (int dim = 3; dim >= 0; --dim) {
      const bool isOne = (broadcast >> dim & 1) != 0;
      desc.mask_strides[dim] = isOne ? 0 : count;
      count *= isOne ? 1 : sizes[dim];
    }
    desc.mask = dtype;
    seen.assign(dtype == ASHLAR_RT_BOOL ? count : 0, 0);
    added = Tensor(dtype == ASHLAR_RT_BOOL ? static_cast<uint32_t>(ASHLAR_RT_F32) : dtype, dtype == ASHLAR_RT_BOOL ? 0 : count, 0);
    for (int64_t i = 0; i < count; ++i) {
      const bool isSeen = random() % 4 != 0;
      if (dtype == ASHLAR_RT_BOOL) {
        seen[i] = isSeen ? 1 : 0;
      } else {
        added.set(i, isSeen ? static_cast<float>(random() % 1000) * 0.002f - 1 : -kInfinity);
      }
    }
  }

  // Takes the tensors of desc.heads_inside from (batch, heads, rows, width) to (batch, rows, heads, width), or back.
  void swapHeads(bool isBack) {
    const auto swap = [&](uint64_t bit, Tensor &tensor, int64_t heads, int64_t rows, int64_t width) {
      const Tensor from = tensor;
      for (int64_t i = 0; i < from.size() && (desc.heads_inside & bit) != 0; ++i) {
        const int64_t column = i % width, row = i / width % rows, head = i / width / rows % heads, batch = i / width / rows / heads;
        const int64_t at = ((batch * rows + row) * heads + head) * width + column;
        tensor.set(isBack ? i : at, from.at(isBack ? at : i));
      }
    };
    swap(ASHLAR_RT_ATTENTION_Q, q, desc.heads, desc.rows, desc.width);
    swap(ASHLAR_RT_ATTENTION_K, k, desc.key_heads, desc.keys, desc.width);
    swap(ASHLAR_RT_ATTENTION_V, v, desc.key_heads, desc.keys, desc.value_width);
    swap(ASHLAR_RT_ATTENTION_OUT, out, desc.heads, desc.rows, desc.value_width);
    swap(ASHLAR_RT_ATTENTION_D_OUT, dOut, desc.heads, desc.rows, desc.value_width);
    swap(ASHLAR_RT_ATTENTION_D_Q, dq, desc.heads, desc.rows, desc.width);
    swap(ASHLAR_RT_ATTENTION_D_K, dk, desc.key_heads, desc.keys, desc.width);
    swap(ASHLAR_RT_ATTENTION_D_V, dv, desc.key_heads, desc.keys, desc.value_width);
  }

  std::vector<void *> buffers(bool isBackward) {
    std::vector<void *> buffers = {q.data(), k.data(), v.data()};
    if (desc.mask != 0) {
      buffers.push_back(desc.mask == ASHLAR_RT_BOOL ? static_cast<void *>(seen.data()) : added.data());
    }
    if (desc.positions != 0) {
      buffers.insert(buffers.end(), {rowPositions.data(), keyPositions.data()});
    }
    if (desc.dropout != 0) {
      buffers.insert(buffers.end(), {rowIndex.data(), keyIndex.data(), &seed, &step, &stream});
    }
    buffers.insert(buffers.end(), {out.data(), lse.data()});
    if (isBackward) {
      buffers.insert(buffers.end(), {dOut.data(), dq.data(), dk.data(), dv.data()});
    }
    return buffers;
  }

  // Runs the parts of an attention that was prepared for the problem, each in a thread.
  void runParts(Attention &attention) {
    std::vector<void *> operands = buffers(desc.kind == ASHLAR_RT_ATTENTION_BACKWARD);
    std::vector<std::thread> pool;
    for (int part = 1; part < attention.parts(); ++part) {
      pool.emplace_back([&, part] { attention.runPart(part, operands.data()); });
    }
    attention.runPart(0, operands.data());
    for (std::thread &thread : pool) {
      thread.join();
    }
  }

  // Runs forward and backward.
  void run(const AttentionKernel &kernel, int threads) {
    for (uint32_t kind : {ASHLAR_RT_ATTENTION_FORWARD, ASHLAR_RT_ATTENTION_BACKWARD}) {
      desc.kind = kind;
      Attention attention;
      GemmWorkspace workspace;
      const Status status = Attention::prepare(desc, threads, kernel, attention, &workspace);
      INFO(status.message());
      REQUIRE(status.ok());
      std::fill(workspace.data(), workspace.data() + workspace.bytes() / sizeof(float), before);
      REQUIRE(attention.parts() >= 1);
      REQUIRE(attention.parts() <= threads);
      runParts(attention);
    }
  }

  bool hasBitsOf(const Problem &other) const {
    return out.hasBitsOf(other.out) && dq.hasBitsOf(other.dq) && dk.hasBitsOf(other.dk) && dv.hasBitsOf(other.dv) &&
           std::memcmp(lse.data(), other.lse.data(), lse.size() * sizeof(float)) == 0;
  }

  std::string description() const {
    return fmt::format("batch {} heads {} / {} rows {} keys {} widths {} {} type {} causal {} {} window {} mask {} softcap {} scale {} "
                       "dropout {} positions {}",
                       desc.batch, desc.heads, desc.key_heads, desc.rows, desc.keys, desc.width, desc.value_width, desc.dtype, desc.causal,
                       desc.diagonal, desc.window, desc.mask, desc.softcap, desc.scale, desc.dropout, desc.positions);
  }
};

// What f64 finds, with a bound on the error of the kernel beside each number. u = 2^-24, to first order but for exponentials:
// - a score: e = (width + 4) u |scale| sum |q| |k| + 5e-7 softcap + 2 u |score|; E is the largest one of a row, and of u |score|;
// - a weight p: relative exp(2 E + (2 keys + 40) u) - 1 (maxima, both exponentials of which one is in the sum, the sum), and 2^-125;
// - a dropout multiplies by a number of f32, which rounds once: part of the 40 u;
// - out: the weights' errors and (2 keys + 40) u of sum p |v|; lse: E, (keys + 20) u and its rounding;
// - backward, p = exp(score - lse): the rounding of lse, u |lse|, comes on top, twice; from 256 on rows are normalized again;
// - the gradient of a score p (dp - delta) slope: the error of p; of dp and delta, sums over value_width terms, with that of out; and of
//   the slope 1 - t^2, 2 (e / softcap + 5e-7);
// - dq, dk, dv: the errors of the terms, and (n + 4) u of the sum of n terms' sizes; and all results are rounded to their type.
struct Bounded {
  std::vector<double> value, bound;

  explicit Bounded(int64_t count) : value(count), bound(count), sizes(count) {}
  void add(int64_t at, double term, double error) {
    value[at] += term;
    bound[at] += error;
    sizes[at] += std::fabs(term);
  }
  // Adds the error of sums of `terms` terms, times `factor`, and the rounding to the type.
  void finish(const Tensor &like, int64_t terms, double factor) {
    for (size_t i = 0; i < value.size(); ++i) {
      value[i] *= factor;
      bound[i] = std::fabs(factor) * (bound[i] + static_cast<double>(terms + 4) * kUnit * sizes[i]);
      bound[i] += like.rounding(value[i]) + like.rounding(bound[i]) + 1e-37;
    }
  }
  // Returns the largest error as a share of the bound.
  template <typename At> double worstShare(const At &at) const {
    double worst = 0;
    for (size_t i = 0; i < value.size(); ++i) {
      const double found = at(static_cast<int64_t>(i));
      if (value[i] == found || (std::isnan(value[i]) && std::isnan(found)) || bound[i] == kInfinity) {
        continue; // infinities too
      }
      const double share = std::fabs(found - value[i]) / bound[i];
      worst = std::isnan(share) ? 1e9 : std::max(worst, share);
    }
    return worst;
  }

private:
  std::vector<double> sizes;
};

struct Exact {
  Bounded out, lse, dq, dk, dv;

  explicit Exact(const Problem &problem)
      : out(problem.out.size()), lse(static_cast<int64_t>(problem.lse.size())), dq(problem.q.size()), dk(problem.k.size()),
        dv(problem.v.size()) {
    const ashlar_rt_attention_desc &desc = problem.desc;
    for (int64_t head = 0; head < desc.batch * desc.heads; ++head) {
      for (int64_t i = 0; i < desc.rows; ++i) {
        addRow(problem, head, i);
      }
    }
    dq.finish(problem.q, desc.keys, desc.scale);
    dk.finish(problem.k, desc.rows * (desc.heads / desc.key_heads), desc.scale);
    dv.finish(problem.v, desc.rows * (desc.heads / desc.key_heads), 1);
  }

  double worstShare(const Problem &problem) const {
    return std::max({out.worstShare([&](int64_t i) { return problem.out.at(i); }),
                     lse.worstShare([&](int64_t i) { return problem.lse[i]; }), dq.worstShare([&](int64_t i) { return problem.dq.at(i); }),
                     dk.worstShare([&](int64_t i) { return problem.dk.at(i); }),
                     dv.worstShare([&](int64_t i) { return problem.dv.at(i); })});
  }

private:
  void addRow(const Problem &problem, int64_t head, int64_t i) {
    const ashlar_rt_attention_desc &desc = problem.desc;
    const int64_t width = desc.width, valueWidth = desc.value_width, keys = desc.keys;
    const int64_t row = head * desc.rows + i, key0 = head / (desc.heads / desc.key_heads) * keys;
    std::vector<double> scores(keys), slopes(keys, 1), slopeErrors(keys, 0);
    double scoreError = 0, largest = -kInfinity;
    for (int64_t j = 0; j < keys; ++j) {
      double sum = 0, sizes = 0;
      for (int64_t p = 0; p < width; ++p) {
        const double term = static_cast<double>(problem.q.at(row * width + p)) * problem.k.at((key0 + j) * width + p);
        sum += term;
        sizes += std::fabs(term);
      }
      double score = desc.scale * sum, error = static_cast<double>(width + 4) * kUnit * std::fabs(desc.scale) * sizes;
      if (desc.softcap != 0) {
        const double share = std::tanh(score / desc.softcap);
        slopes[j] = 1 - share * share;
        slopeErrors[j] = 2 * (error / desc.softcap + 5e-7);
        score = desc.softcap * share;
        error += 5e-7 * desc.softcap;
      }
      if (desc.mask != 0) {
        const int64_t *strides = desc.mask_strides;
        const int64_t at = head / desc.heads * strides[0] + head % desc.heads * strides[1] + i * strides[2] + j * strides[3];
        if (desc.mask == ASHLAR_RT_BOOL) {
          score = problem.seen[at] != 0 ? score : -kInfinity;
        } else {
          score += problem.added.at(at);
        }
      }
      if (desc.causal != 0 &&
          (problem.distanceOf(i, j) > desc.diagonal || (desc.window != 0 && problem.distanceOf(i, j) <= desc.diagonal - desc.window))) {
        score = -kInfinity;
      }
      scores[j] = score;
      if (score != -kInfinity) {
        scoreError = std::max(scoreError, error + 3 * kUnit * std::fabs(score));
        largest = std::max(largest, score);
      }
    }
    if (largest == -kInfinity) { // gradients may be NaN, or 0 where whole blocks are left out
      lse.value[row] = -kInfinity;
      std::fill_n(out.value.begin() + row * valueWidth, valueWidth, kNan);
      std::fill_n(dq.bound.begin() + row * width, width, kInfinity);
      std::fill_n(dk.bound.begin() + key0 * width, keys * width, kInfinity);
      std::fill_n(dv.bound.begin() + key0 * valueWidth, keys * valueWidth, kInfinity);
      return;
    }
    double sum = 0;
    for (double score : scores) {
      sum += std::exp(score - largest);
    }
    const double logSum = largest + std::log(sum);
    lse.value[row] = logSum;
    lse.bound[row] = scoreError + static_cast<double>(keys + 20) * kUnit + 2 * kUnit * std::fabs(logSum);
    const double forwardError = std::expm1(2 * scoreError + static_cast<double>(2 * keys + 40) * kUnit);
    const double backwardError =
        std::expm1(2 * scoreError + 4 * kUnit * std::min(std::fabs(logSum), 256.0) + static_cast<double>(2 * keys + 40) * kUnit);
    std::vector<double> weights(keys), counts(keys);
    double delta = 0, deltaError = 0;
    for (int64_t j = 0; j < keys; ++j) {
      weights[j] = std::exp(scores[j] - logSum);
      counts[j] = problem.countOf(row, j);
    }
    for (int64_t c = 0; c < valueWidth; ++c) {
      const int64_t at = row * valueWidth + c;
      double value = 0, sizes = 0, all = 0;
      for (int64_t j = 0; j < keys; ++j) {
        const double term = counts[j] * problem.v.at((key0 + j) * valueWidth + c);
        value += weights[j] * term;
        sizes += weights[j] * std::fabs(term);
        all += std::fabs(term);
      }
      out.value[at] = value;
      out.bound[at] = sizes * (forwardError + static_cast<double>(2 * keys + 40) * kUnit) + all * 0x1p-125;
      out.bound[at] += problem.out.rounding(value) + problem.out.rounding(out.bound[at]);
      const double gradient = problem.dOut.at(at);
      delta += gradient * value;
      deltaError += std::fabs(gradient) * (out.bound[at] + static_cast<double>(valueWidth + 2) * kUnit * std::fabs(value));
    }
    for (int64_t j = 0; j < keys; ++j) {
      double dWeight = 0, sizes = 0;
      const double weightError = weights[j] * backwardError + (scores[j] == -kInfinity ? 0 : 0x1p-125);
      for (int64_t c = 0; c < valueWidth; ++c) {
        const double gradient = problem.dOut.at(row * valueWidth + c),
                     term = gradient * counts[j] * problem.v.at((key0 + j) * valueWidth + c);
        dWeight += term;
        sizes += std::fabs(term);
        dv.add((key0 + j) * valueWidth + c, counts[j] * weights[j] * gradient, counts[j] * weightError * std::fabs(gradient));
      }
      const double difference = dWeight - delta;
      const double differenceError = deltaError + static_cast<double>(valueWidth + 4) * kUnit * (sizes + std::fabs(delta));
      const double dScore = weights[j] * difference * slopes[j];
      const double dScoreError = weightError * std::fabs(difference) + (weights[j] + weightError) * differenceError +
                                 (weights[j] + weightError) * (std::fabs(difference) + differenceError) * (slopeErrors[j] + 4 * kUnit);
      for (int64_t p = 0; p < width; ++p) {
        const double key = problem.k.at((key0 + j) * width + p), query = problem.q.at(row * width + p);
        dq.add(row * width + p, dScore * key, dScoreError * std::fabs(key));
        dk.add((key0 + j) * width + p, dScore * query, dScoreError * std::fabs(query));
      }
    }
  }
};

inline ashlar_rt_attention_desc square(int64_t batch, int64_t heads, int64_t keyHeads, int64_t rows, int64_t keys, int64_t width,
                                       int64_t valueWidth) {
  ashlar_rt_attention_desc desc{};
  desc.kind = ASHLAR_RT_ATTENTION_FORWARD;
  desc.dtype = ASHLAR_RT_F32;
  desc.batch = batch;
  desc.heads = heads;
  desc.key_heads = keyHeads;
  desc.rows = rows;
  desc.keys = keys;
  desc.width = width;
  desc.value_width = valueWidth;
  desc.scale = 1 / std::sqrt(static_cast<float>(width));
  return desc;
}

// Returns random sizes and options; every `large`-th round goes beyond blocks of rows and keys.
inline ashlar_rt_attention_desc randomDesc(int round, std::mt19937 &random) {
  const auto size = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  const bool isLarge = round % 6 == 0;
  const int64_t keyHeads = size(isLarge ? 1 : 2), most = isLarge ? 300 : 60;
  ashlar_rt_attention_desc desc = square(size(isLarge ? 1 : 2), keyHeads * size(isLarge ? 2 : 3), keyHeads, size(most), size(most),
                                         size(round % 4 == 0 ? 256 : 40), size(round % 4 == 0 ? 256 : 40));
  desc.dtype = random() % 3 == 0 ? ASHLAR_RT_BF16 : ASHLAR_RT_F32;
  desc.causal = random() % 2;
  desc.diagonal = static_cast<int64_t>(random() % 3) == 0 ? 0 : static_cast<int64_t>(random() % (2 * most)) - most;
  desc.window = desc.causal != 0 && random() % 2 == 0 ? size(most) : 0;
  desc.softcap = random() % 3 == 0 ? 2.0f : 0.0f;
  desc.scale = random() % 8 == 0 ? -desc.scale : desc.scale;
  desc.positions = desc.causal != 0 && random() % 3 == 0 ? 1 : 0;
  if (random() % 3 == 0) {
    desc.dropout = 0.1f + 0.2f * static_cast<float>(random() % 4);
    desc.kept = 1 / (1 - desc.dropout);
  }
  return desc;
}

constexpr uint32_t kMasks[] = {0, ASHLAR_RT_F32, ASHLAR_RT_BF16, ASHLAR_RT_BOOL};

} // namespace ashlar::rt::test::attention

#endif // ASHLAR_TEST_UNIT_KERNELS_ATTENTION_PROBLEM_H
