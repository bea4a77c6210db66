// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradients against plain loops in f64, for every kernel that this processor can run.
// Longer than 500 lines: one reference, with a bound on the error of each number, which all cases share.

#include "runtime/abi/memory_sizes.h"
#include "runtime/base/half.h"
#include "runtime/base/philox.h"
#include "runtime/kernels/cpu/attention/attention.h"
#include "runtime/kernels/cpu/attention/attention_kernel.h"
#include "test/unit/data/allocations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

using namespace ashlar::rt;

namespace {

constexpr double kUnit = 0x1p-24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<const AttentionKernel *> availableKernels() {
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

  // Runs forward and backward, the parts each in a thread.
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
      std::vector<void *> operands = buffers(kind == ASHLAR_RT_ATTENTION_BACKWARD);
      std::vector<std::thread> pool;
      for (int part = 1; part < attention.parts(); ++part) {
        pool.emplace_back([&, part] { attention.runPart(part, operands.data()); });
      }
      attention.runPart(0, operands.data());
      for (std::thread &thread : pool) {
        thread.join();
      }
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

ashlar_rt_attention_desc square(int64_t batch, int64_t heads, int64_t keyHeads, int64_t rows, int64_t keys, int64_t width,
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
ashlar_rt_attention_desc randomDesc(int round, std::mt19937 &random) {
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

} // namespace

TEST_CASE("attention: random shapes, masks and types agree with the plain loops", "[kernels][attention]") {
  for (const AttentionKernel *kernel : availableKernels()) {
    std::mt19937 random(1);
    double worst = 0, worstWide = 0; // the rounding to bf16 alone may take all of its allowance
    for (int round = 0; round < 90; ++round) {
      // In the last rounds values are up to 100 and products of them up to 1e4, so that most weights are 0 or 1.
      Problem problem(randomDesc(round, random), random, round < 80 ? 2.0f : 100.0f);
      if (const uint32_t mask = kMasks[random() % 4]) {
        problem.addMask(mask, random() % 16, random);
      }
      problem.run(*kernel, 1 + static_cast<int>(random() % 3));
      INFO(kernel->name << " round " << round << ": " << problem.description());
      const double share = Exact(problem).worstShare(problem);
      REQUIRE(share <= 1);
      double &worstOfType = problem.desc.dtype == ASHLAR_RT_F32 ? worstWide : worst;
      worstOfType = std::max(worstOfType, share);
    }
    WARN(kernel->name << ": worst error is " << 100 * worstWide << " % of the allowance in f32, " << 100 * worst << " % in bf16, seed 1");
  }
}

TEST_CASE("attention: heads inside rows give the same bits", "[kernels][attention]") {
  std::mt19937 random(8);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (int round = 0; round < 24; ++round) {
      Problem plain(randomDesc(round, random), random);
      if (const uint32_t mask = kMasks[random() % 4]) {
        plain.addMask(mask, random() % 16, random);
      }
      Problem inside = plain;
      inside.desc.heads_inside = round < 8 ? uint64_t{1} << round : random() % 256;
      inside.swapHeads(/*isBack=*/false);
      INFO(kernel->name << ": " << plain.description() << " heads inside " << inside.desc.heads_inside);
      const int threads = 1 + static_cast<int>(random() % 3);
      plain.run(*kernel, threads);
      inside.run(*kernel, threads);
      inside.swapHeads(/*isBack=*/true);
      REQUIRE(inside.hasBitsOf(plain));
    }
  }
}

TEST_CASE("attention: a window is a mask of the keys before it", "[kernels][attention]") {
  // Long enough that whole blocks of keys lie before the windows of a block of rows.
  std::mt19937 random(9);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (const int64_t window : {1, 30, 250, 10000}) {
      for (const int64_t diagonal : {0, 170, -100}) {
        ashlar_rt_attention_desc desc = square(1, 2, 1, 600, 620, 16, 8);
        desc.causal = 1;
        desc.diagonal = diagonal;
        desc.window = window;
        Problem narrow(desc, random);
        narrow.run(*kernel, 3);
        INFO(kernel->name << ": " << narrow.description());
        REQUIRE(Exact(narrow).worstShare(narrow) <= 1);
      }
    }
  }
}

TEST_CASE("attention: the bits do not depend on threads, batch entries or heads", "[kernels][attention]") {
  // Few heads are cut into units of rows and keys, many into whole heads; all of them give the bits of one thread.
  std::mt19937 random(2);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (int round = 0; round < 8; ++round) {
      const int64_t keyHeads = 1 + round % 3;
      ashlar_rt_attention_desc desc = square(1 + round / 4, keyHeads * (1 + round % 2), keyHeads, 410, 397, 20, 36);
      desc.causal = round % 2;
      desc.diagonal = -13;
      Problem one(desc, random);
      Problem several = one;
      one.run(*kernel, 1);
      INFO(kernel->name << ": " << one.description());
      for (int threads : {2, 3, 7}) {
        several.run(*kernel, threads);
        REQUIRE(several.hasBitsOf(one));
      }
      // The last head of the last entry, where it has keys of its own, alone.
      if (desc.heads == desc.key_heads) {
        ashlar_rt_attention_desc single = desc;
        single.batch = single.heads = single.key_heads = 1;
        Problem alone(single, random);
        const auto last = [](const Tensor &from, Tensor &to) { std::copy(from.wide.end() - to.size(), from.wide.end(), to.wide.begin()); };
        last(one.q, alone.q);
        last(one.k, alone.k);
        last(one.v, alone.v);
        last(one.dOut, alone.dOut);
        alone.run(*kernel, 1);
        Tensor expected = alone.dk;
        last(one.dk, expected);
        REQUIRE(alone.dk.hasBitsOf(expected));
        expected = alone.out;
        last(one.out, expected);
        REQUIRE(alone.out.hasBitsOf(expected));
      }
    }
  }
}

TEST_CASE("attention: rows that see no key are NaN", "[kernels][attention]") {
  std::mt19937 random(3);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (uint32_t mask : kMasks) {
      ashlar_rt_attention_desc desc = square(1, 2, 1, 250, 230, 17, 9);
      desc.causal = 1;
      desc.diagonal = -210; // of 250 rows, 40 see a key, and the first block none
      Problem problem(desc, random);
      problem.before = 1;
      if (mask != 0) {
        problem.addMask(mask, 0, random);
        for (int64_t j = 0; j < 230; ++j) { // row 240 of head 1
          if (mask == ASHLAR_RT_BOOL) {
            problem.seen[(250 + 240) * 230 + j] = 0;
          } else {
            problem.added.set((250 + 240) * 230 + j, -kInfinity);
          }
        }
      }
      problem.run(*kernel, 2);
      INFO(kernel->name << ": " << problem.description());
      for (int64_t row = 0; row < 500; ++row) {
        if (row % 250 < 210 || (mask != 0 && row == 490)) {
          REQUIRE(problem.lse[row] == -kInfinity);
          for (int64_t c = 0; c < 9; ++c) {
            REQUIRE(std::isnan(problem.out.at(row * 9 + c)));
          }
        }
      }
      REQUIRE(Exact(problem).worstShare(problem) <= 1);
    }
  }
}

TEST_CASE("attention: NaN and infinities reach the rows that see them", "[kernels][attention]") {
  std::mt19937 random(4);
  for (const AttentionKernel *kernel : availableKernels()) {
    const ashlar_rt_attention_desc desc = square(1, 1, 1, 50, 300, 8, 5);
    const auto isNan = [](const Tensor &tensor, int64_t row, int64_t width) {
      int64_t count = 0;
      for (int64_t c = 0; c < width; ++c) {
        count += std::isnan(tensor.at(row * width + c)) ? 1 : 0;
      }
      REQUIRE((count == 0 || count == width));
      return count != 0;
    };
    // A query that is NaN, with scores of NaN, spoils its row and every dk and dv.
    Problem query(desc, random);
    query.q.set(7 * 8 + 3, kNan);
    query.run(*kernel, 1);
    for (int64_t row = 0; row < 50; ++row) {
      REQUIRE(isNan(query.out, row, 5) == (row == 7));
      REQUIRE(isNan(query.dq, row, 8) == (row == 7));
      REQUIRE(std::isnan(query.lse[row]) == (row == 7));
    }
    for (int64_t key = 0; key < 300; ++key) {
      REQUIRE(isNan(query.dv, key, 5));
      REQUIRE(isNan(query.dk, key, 8));
    }
    // A value of infinity, with a positive weight in every row, is one in every row of its column; a score of infinity makes inf - inf.
    Problem value(desc, random);
    value.v.set(200 * 5 + 1, kInfinity);
    value.run(*kernel, 1);
    Problem score(desc, random);
    score.addMask(ASHLAR_RT_F32, 0, random);
    score.added.set(9 * 300 + 250, kInfinity);
    score.run(*kernel, 1);
    for (int64_t row = 0; row < 50; ++row) {
      REQUIRE(value.out.at(row * 5 + 1) == kInfinity);
      REQUIRE(std::isfinite(value.out.at(row * 5 + 2)));
      REQUIRE(isNan(score.out, row, 5) == (row == 9));
    }
  }
}

TEST_CASE("attention: scores beyond the range of exp keep their order", "[kernels][attention]") {
  // Scores of 1e4 and more: the largest one has all the weight. Masks of -1e9 are numbers, not the end of a row.
  std::mt19937 random(5);
  for (const AttentionKernel *kernel : availableKernels()) {
    ashlar_rt_attention_desc desc = square(1, 1, 1, 3, 400, 1, 1);
    desc.scale = 1;
    Problem problem(desc, random);
    for (int64_t i = 0; i < 3; ++i) {
      problem.q.set(i, i == 1 ? -1e4f : 1e4f);
    }
    for (int64_t j = 0; j < 400; ++j) {
      problem.k.set(j, static_cast<float>(j - 200));
      problem.v.set(j, static_cast<float>(j));
    }
    problem.run(*kernel, 1);
    REQUIRE(problem.out.at(0) == 399);
    REQUIRE(problem.out.at(1) == 0);
    REQUIRE(problem.lse[0] == 199e4f);
    REQUIRE(problem.lse[1] == 200e4f);
    problem.addMask(ASHLAR_RT_F32, 1 << 2, random);
    for (int64_t j = 0; j < 400; ++j) {
      problem.added.set(j, j < 100 ? 0.0f : -1e9f);
    }
    problem.run(*kernel, 1);
    REQUIRE(problem.out.at(0) == 99);
    REQUIRE(problem.out.at(1) == 0);
  }
}

TEST_CASE("attention: a row that is masked whole by large numbers has equal weights", "[kernels][attention]") {
  // Masks of the lowest number are common for rows of padding. Scores are then all equal, and log(keys) is lost in the rounding of lse.
  std::mt19937 random(7);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (float lowest : {-1e9f, std::numeric_limits<float>::lowest()}) {
      for (int64_t keys : {7, 300}) {
        Problem problem(square(1, 1, 1, 200, keys, 16, 3), random);
        problem.addMask(ASHLAR_RT_F32, 1 << 3, random);
        for (int64_t i = 0; i < 200; ++i) {
          problem.added.set(i, i % 2 == 0 ? lowest : 0);
        }
        problem.run(*kernel, 2);
        for (int64_t c = 0; c < 3; ++c) {
          double mean = 0, dValues = 0, all = 0;
          for (int64_t j = 0; j < keys; ++j) {
            mean += problem.v.at(j * 3 + c) / static_cast<double>(keys);
            dValues += problem.dv.at(j * 3 + c);
          }
          for (int64_t i = 0; i < 200; ++i) {
            all += problem.dOut.at(i * 3 + c);
          }
          REQUIRE(problem.out.at(c) == Approx(mean).margin(1e-6));
          REQUIRE(dValues == Approx(all).margin(1e-4)); // the weights of each row are 1 in sum
        }
      }
    }
  }
}

TEST_CASE("attention: refuses what only a broken image can ask for", "[kernels][attention]") {
  Attention attention;
  ashlar_rt_attention_desc desc = square(1, 4, 2, 5, 5, 8, 8);
  desc.rows = 0;
  REQUIRE(Attention::prepare(desc, 1, attention).message() == "attention of size 1 x 4 x 2 x 0 x 5 x 8 x 8 (batch, heads, key heads, rows, "
                                                              "keys, width, value width): every size must be at least 1");
  desc = square(1, 4, 3, 5, 5, 8, 8);
  REQUIRE(Attention::prepare(desc, 1, attention).message() == "attention with 4 heads and 3 key heads: no multiple");
  desc = square(1, 4, 2, 5, 5, 8, 8);
  desc.dtype = ASHLAR_RT_F16;
  REQUIRE(Attention::prepare(desc, 1, attention).message() == "attention of type 6: it must be f32 or bf16");
  desc.dtype = ASHLAR_RT_F32;
  desc.mask = ASHLAR_RT_I32;
  REQUIRE(Attention::prepare(desc, 1, attention).message() == "attention with a mask of type 3: it must be f32, bf16 or bool");
  desc.mask = 0;
  desc.heads_inside = 256;
  REQUIRE(Attention::prepare(desc, 1, attention).message() == "attention with heads inside rows of tensors 0x100: all there are are 0xff");
  desc.heads_inside = 0;
  desc.window = 3;
  REQUIRE(Attention::prepare(desc, 1, attention).message() == "attention with a window of 3: it must be positive, and of a causal one");
  desc.window = 0;
  desc.kind = 9;
  REQUIRE(Attention::prepare(desc, 1, attention).message() == "attention of kind 9: the last known one is 2");
}

TEST_CASE("attention: memory grows with the sequence, and a run does not allocate", "[kernels][attention]") {
  std::mt19937 random(6);
  for (uint32_t kind : {ASHLAR_RT_ATTENTION_FORWARD, ASHLAR_RT_ATTENTION_BACKWARD}) {
    ashlar_rt_attention_desc desc = square(1, 1, 1, 4096, 4096, 64, 64);
    desc.kind = kind;
    const uint64_t once = attentionWorkspaceBytes(desc);
    desc.rows = desc.keys = 2 * desc.keys;
    REQUIRE(attentionWorkspaceBytes(desc) <= 2 * once);
    // Two attentions that share memory run one after the other.
    GemmWorkspace workspace;
    Problem small(square(1, 2, 2, 30, 40, 10, 10), random);
    small.desc.kind = kind;
    Attention first, second;
    REQUIRE(Attention::prepare(small.desc, 2, first, &workspace).ok());
    REQUIRE(Attention::prepare(desc, 2, second, &workspace).ok());
    std::vector<void *> buffers = small.buffers(kind == ASHLAR_RT_ATTENTION_BACKWARD);
    const uint64_t before = ashlar::test::allocations();
    first.run(buffers.data());
    REQUIRE(ashlar::test::allocations() == before);
  }
}
