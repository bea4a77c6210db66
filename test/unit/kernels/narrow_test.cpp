// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of bf16 and f16 against the plain loops of runtime/kernels/reference on the same numbers, for every kernel that this
// processor can run, and for that of AMX with emulated tiles.

#include "runtime/abi/memory_sizes.h"
#include "runtime/base/half.h"
#include "runtime/kernels/cpu/bytes.h"
#include "runtime/kernels/cpu/gemm.h"
#include "runtime/kernels/cpu/gemm_kernel.h"
#include "runtime/kernels/reference/gemm.h"
#include "test/unit/data/allocations.h"
#include "test/unit/kernels/emulated_amx.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace ashlar::test::narrow_test {

using namespace ashlar::rt;

namespace {

struct Kernel {
  const NarrowKernel *kernel;
  bool takesF16 = true, flushes = false; // numbers below 2^-126 are 0
};

std::vector<Kernel> availableKernels() {
  std::vector<Kernel> kernels = {{&narrowKernelGeneric()}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernels.push_back({&narrowKernelAvx2()});
  }
  if (__builtin_cpu_supports("avx512f")) {
    kernels.push_back({&narrowKernelAvx512()});
    kernels.push_back({&emulatedAmxKernel(), false, true});
  }
  if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw")) {
    kernels.push_back({&narrowKernelAvx512Bf16(), false, true});
    if (hasAmx() && __builtin_cpu_supports("amx-bf16")) {
      kernels.push_back({&narrowKernelAmx(), false, true});
    }
  }
#endif
  return kernels;
}

uint16_t narrowed(float value, bool isF16) {
  return isF16 ? F16(value).bits : Bf16(value).bits;
}

float widened(uint16_t bits, bool isF16) {
  F16 f16;
  Bf16 bf16;
  f16.bits = bf16.bits = bits;
  return isF16 ? static_cast<float>(f16) : static_cast<float>(bf16);
}

// The operands of one product, random in [-1, 1] and rounded; the result as the descriptor has it, filled with NaN.
struct Problem {
  ashlar_rt_gemm_desc desc;
  std::vector<float> a, b, bias; // exactly the numbers of the operands
  std::vector<uint16_t> narrowA, narrowB, narrowBias;
  std::vector<float> out;
  std::vector<uint16_t> narrowOut;

  Problem(const ashlar_rt_gemm_desc &desc, std::mt19937 &random)
      : desc(desc), a(desc.batch * desc.m * desc.k), b(desc.batch * desc.k * desc.n), bias(desc.n) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::vector<float> *operand : {&a, &b, &bias}) {
      std::generate(operand->begin(), operand->end(), [&] { return uniform(random); });
    }
    round();
  }

  bool isF16() const { return desc.narrow == ASHLAR_RT_F16; }
  size_t size() const { return desc.batch * desc.m * desc.n; }

  void round() {
    const auto take = [&](std::vector<float> &numbers, std::vector<uint16_t> &narrow) {
      narrow.resize(numbers.size());
      for (size_t i = 0; i < numbers.size(); ++i) {
        narrow[i] = narrowed(numbers[i], isF16());
        numbers[i] = widened(narrow[i], isF16());
      }
    };
    take(a, narrowA);
    take(b, narrowB);
    take(bias, narrowBias);
    clear();
  }
  void clear() {
    out.assign(size(), std::numeric_limits<float>::quiet_NaN());
    narrowOut.assign(size(), 0x7fff);
  }

  const void *biasAt() const { return desc.narrow_out != 0 ? static_cast<const void *>(narrowBias.data()) : bias.data(); }
  void *outAt() { return desc.narrow_out != 0 ? static_cast<void *>(narrowOut.data()) : out.data(); }
  float outOf(size_t i) const { return desc.narrow_out != 0 ? widened(narrowOut[i], isF16()) : out[i]; }

  // Returns the largest error of f32 results as a share of what is allowed: as of f32 (gemm_test.cpp), and each product and sum of a kernel
  // that flushes may lack 2^-126, and each operand 2^-126 times the other one, at most 1 here.
  double worstShare(bool flushes) const {
    std::vector<float> exact(size());
    referenceGemm(desc, a.data(), b.data(), bias.data(), exact.data());
    const auto absOf = [](const std::vector<float> &numbers, int64_t at) { return std::fabs(static_cast<double>(numbers[at])); };
    const int64_t m = desc.m, n = desc.n, k = desc.k;
    double worst = 0;
    for (int64_t at = 0; at < static_cast<int64_t>(size()); ++at) {
      const int64_t batch = at / (m * n), i = at / n % m, j = at % n;
      double sum = desc.addend != 0 ? absOf(bias, j) : 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += absOf(a, batch * m * k + (desc.transpose_a ? p * m + i : i * k + p)) *
               absOf(b, batch * k * n + (desc.transpose_b ? j * k + p : p * n + j));
      }
      const double smooth = desc.epilogue > ASHLAR_RT_EPILOGUE_RELU ? 5e-7 * std::max(1.0f, std::fabs(exact[at])) : 0;
      const double small = flushes ? 4.0 * static_cast<double>(k + 1) * 0x1p-126 : 0x1p-140;
      const double allowed = 1.13 * ((static_cast<double>(k) + 2) * 0x1p-24 * sum + small) + smooth;
      const double error = std::fabs(static_cast<double>(out[at]) - exact[at]);
      worst = std::isnan(error) ? 1e9 : std::max(worst, error / allowed);
    }
    return worst;
  }

  // Returns whether `narrowOut` is `out`, rounded.
  bool isRounded() const {
    for (size_t i = 0; i < size(); ++i) {
      const uint16_t expected = narrowed(out[i], isF16());
      if (narrowOut[i] != expected && !(std::isnan(out[i]) && std::isnan(widened(narrowOut[i], isF16())))) {
        return false;
      }
    }
    return true;
  }
};

std::string describe(const ashlar_rt_gemm_desc &d) {
  return fmt::format("batch {} m {} n {} k {} ta {} tb {} bias {} epilogue {} fixed {} type {} narrow out {}", d.batch, d.m, d.n, d.k,
                     d.transpose_a, d.transpose_b, d.addend, d.epilogue, d.fixed_weights, d.narrow, d.narrow_out);
}

ashlar_rt_gemm_desc randomDesc(std::mt19937 &random, int round) {
  const auto size = [&](int64_t small, int64_t large) { return 1 + static_cast<int64_t>(random() % (round % 10 == 0 ? large : small)); };
  ashlar_rt_gemm_desc desc = {};
  desc.batch = size(3, 2);
  desc.m = size(40, 450);
  desc.n = size(80, 330);
  desc.k = round % 5 == 1 ? size(2600, 1) : size(70, 900);
  desc.transpose_a = random() % 2;
  desc.transpose_b = random() % 2;
  desc.addend = random() % 2;
  desc.epilogue = static_cast<uint32_t>(random() % 6);
  desc.narrow = random() % 3 == 0 ? ASHLAR_RT_F16 : ASHLAR_RT_BF16;
  return desc;
}

// Runs a product of one batch directly on a kernel, a piece from the second strip and panel on and what is left of it; or all of it with B
// ordered. The workspace is exactly as large as the compiler plans, and full of NaN.
void runKernel(const NarrowKernel &kernel, Problem &problem, bool isOrdered = false) {
  ashlar_rt_gemm_desc d = problem.desc;
  d.fixed_weights = isOrdered;
  GemmWorkspace workspace;
  const uint64_t bytes = productWorkspaceBytes(d);
  REQUIRE(workspace.reserve(bytes).ok());
  std::memset(workspace.data(), 0xff, bytes);
  NarrowPiece whole = {};
  whole.rows = d.m;
  whole.cols = d.n;
  whole.k = d.k;
  whole.a = problem.narrowA.data();
  whole.aRow = d.transpose_a ? 1 : d.k;
  whole.aCol = d.transpose_a ? d.m : 1;
  whole.b = problem.narrowB.data();
  whole.bRow = d.transpose_b ? 1 : d.n;
  whole.bCol = d.transpose_b ? d.k : 1;
  whole.outRow = d.n;
  whole.epilogue = d.epilogue;
  whole.isF16 = problem.isF16();
  whole.isOutNarrow = d.narrow_out != 0;
  const int64_t size = whole.isOutNarrow ? 2 : 4, panels = (d.n + kernel.tileCols - 1) / kernel.tileCols;
  const int64_t panel = (d.k + 1) / 2 * 2 * kernel.tileCols;
  std::vector<uint16_t> ordered(isOrdered ? panels * panel : 0, 0x7fff);
  for (int64_t i = 0; i < panels && isOrdered; ++i) {
    NarrowPiece columns = whole;
    columns.cols = std::min(kernel.tileCols, d.n - i * kernel.tileCols);
    columns.b += i * kernel.tileCols * whole.bCol;
    kernel.order(columns, ordered.data() + i * panel);
  }
  const int64_t row = std::min(d.m, kernel.tileRows), col = std::min(d.n, kernel.tileCols);
  for (const int64_t i : {int64_t{0}, row}) {
    for (const int64_t j : {int64_t{0}, col}) {
      NarrowPiece piece = whole;
      piece.rows = i == 0 ? row : d.m - row;
      piece.cols = j == 0 ? col : d.n - col;
      if (piece.rows == 0 || piece.cols == 0) {
        continue;
      }
      piece.a += i * whole.aRow;
      piece.b = isOrdered ? ordered.data() + j / kernel.tileCols * panel : whole.b + j * whole.bCol;
      piece.isOrdered = isOrdered;
      piece.bias = d.addend != 0 ? static_cast<const char *>(problem.biasAt()) + j * size : nullptr;
      piece.out = static_cast<char *>(problem.outAt()) + (i * d.n + j) * size;
      kernel.compute(piece, workspace.data());
      if (d.addend != 0 && !whole.isOutNarrow) { // bit by bit the same where the result holds the bias
        std::vector<float> held(piece.rows * d.n);
        for (int64_t at = 0; at < piece.rows; ++at) {
          std::copy_n(problem.bias.begin() + j, piece.cols, held.begin() + at * d.n);
        }
        NarrowPiece added = piece;
        added.bias = nullptr;
        added.out = held.data();
        added.accumulates = true;
        kernel.compute(added, workspace.data());
        for (int64_t at = 0; at < piece.rows; ++at) {
          REQUIRE(std::memcmp(held.data() + at * d.n, static_cast<const float *>(piece.out) + at * d.n, piece.cols * sizeof(float)) == 0);
        }
      }
    }
  }
}

Gemm prepared(const ashlar_rt_gemm_desc &desc, int threads) {
  Gemm gemm;
  const Status status = Gemm::prepare(desc, threads, gemm);
  INFO(status.message());
  REQUIRE(status.ok());
  return gemm;
}

} // namespace

TEST_CASE("narrow: random shapes, transposes and epilogues agree with the plain loops", "[kernels][gemm]") {
  // An f32 result within the bound; the narrow one is that, rounded; ordered weights change no bit of either.
  for (const Kernel &each : availableKernels()) {
    std::mt19937 random(1);
    double worst = 0;
    for (int round = 0; round < 120; ++round) {
      ashlar_rt_gemm_desc desc = randomDesc(random, round);
      desc.batch = 1;
      desc.narrow = each.takesF16 ? desc.narrow : ASHLAR_RT_BF16;
      INFO(each.kernel->name << " " << describe(desc));
      Problem problem(desc, random);
      runKernel(*each.kernel, problem);
      const double share = problem.worstShare(each.flushes);
      REQUIRE(share <= 1);
      worst = std::max(worst, share);
      const std::vector<float> sums = problem.out;
      problem.desc.narrow_out = 1;
      runKernel(*each.kernel, problem);
      REQUIRE(problem.isRounded());
      const std::vector<uint16_t> results = problem.narrowOut;
      problem.clear();
      runKernel(*each.kernel, problem, /*isOrdered=*/true);
      REQUIRE(problem.narrowOut == results);
      problem.desc.narrow_out = 0;
      runKernel(*each.kernel, problem, /*isOrdered=*/true);
      REQUIRE(std::memcmp(problem.out.data(), sums.data(), sums.size() * sizeof(float)) == 0);
    }
    WARN(each.kernel->name << ": worst error is " << 100 * worst << " % of the allowance, seed 1");
  }
}

TEST_CASE("narrow: every number is taken and given as it is", "[kernels][gemm]") {
  // A product with 1 is the number itself. Numbers below 2^-126 may count as 0 where the kernel flushes.
  for (const Kernel &each : availableKernels()) {
    for (const uint32_t type : {ASHLAR_RT_BF16, ASHLAR_RT_F16}) {
      if (type == ASHLAR_RT_F16 && !each.takesF16) {
        continue;
      }
      const int64_t count = 65536;
      std::mt19937 random(2);
      Problem problem({1, 1, count, 1, 0, 0, 0, 0, 0, 0, 0, 0, type, 0}, random);
      problem.narrowA = {narrowed(1, problem.isF16())};
      for (int64_t i = 0; i < count; ++i) {
        problem.narrowB[i] = static_cast<uint16_t>(i);
      }
      runKernel(*each.kernel, problem);
      problem.desc.narrow_out = 1;
      runKernel(*each.kernel, problem);
      for (int64_t i = 0; i < count; ++i) {
        const float exact = widened(problem.narrowB[i], problem.isF16());
        const float found[2] = {problem.out[i], problem.outOf(i)};
        for (const float value : found) {
          INFO(each.kernel->name << " type " << type << " " << i << " is " << value << ", exactly " << exact);
          const bool isFlushed = each.flushes && std::fabs(exact) < 0x1p-126f && value == 0;
          REQUIRE((std::isnan(exact) ? std::isnan(value) : value == exact || isFlushed));
        }
      }
    }
  }
}

TEST_CASE("narrow: small numbers are within the bound, infinities and NaN come through", "[kernels][gemm]") {
  std::mt19937 random(3);
  for (const Kernel &each : availableKernels()) {
    for (int round = 0; round < 20; ++round) {
      ashlar_rt_gemm_desc desc = randomDesc(random, round);
      desc.batch = 1;
      desc.narrow = ASHLAR_RT_BF16;
      desc.epilogue = round % 2 == 0 ? ASHLAR_RT_EPILOGUE_NONE : ASHLAR_RT_EPILOGUE_RELU;
      Problem problem(desc, random);
      for (std::vector<float> *operand : {&problem.a, &problem.b, &problem.bias}) {
        for (float &value : *operand) {
          value = std::ldexp(value, -static_cast<int>(random() % 140));
        }
      }
      problem.round();
      INFO(each.kernel->name << " " << describe(desc));
      runKernel(*each.kernel, problem);
      REQUIRE(problem.worstShare(each.flushes) <= 1);
    }
    // The number in one row of A concerns this row only.
    for (const float special : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Problem problem({1, 21, 45, 51, 0, 0, 0, 0, 0, 0, 0, 0, ASHLAR_RT_BF16, 0}, random);
      problem.a[20 * 51 + 50] = special;
      problem.round();
      runKernel(*each.kernel, problem);
      for (int64_t i = 0; i < 21 * 45; ++i) {
        INFO(each.kernel->name << " " << i / 45 << ", " << i % 45 << ": " << problem.out[i]);
        REQUIRE(std::isfinite(problem.out[i]) == (i / 45 != 20));
      }
    }
  }
}

TEST_CASE("narrow: batches, threads and fixed weights cover the whole result and change no bit", "[kernels][gemm]") {
  std::mt19937 random(4);
  for (int round = 0; round < 80; ++round) {
    ashlar_rt_gemm_desc desc = randomDesc(random, round);
    desc.narrow_out = random() % 2;
    INFO(describe(desc));
    Problem problem(desc, random), one = problem;
    prepared(desc, 1).run(one.narrowA.data(), one.narrowB.data(), one.biasAt(), one.outAt());
    if (desc.narrow_out == 0) {
      REQUIRE(one.worstShare(/*flushes=*/true) <= 1);
    }
    desc.fixed_weights = random() % 2;
    const int threads = 1 + static_cast<int>(random() % 7);
    Gemm gemm = prepared(desc, threads);
    GemmWorkspace memory;
    const uint64_t bytes = orderedWeightBytes(desc);
    REQUIRE(memory.reserve(std::max<uint64_t>(bytes, 64)).ok());
    std::memset(static_cast<void *>(memory.data()), 0xff, bytes);
    for (int piece = 0; piece < gemm.orderedPieces() && desc.fixed_weights != 0; ++piece) {
      gemm.order(piece, problem.narrowB.data(), memory.data());
    }
    const void *b = desc.fixed_weights != 0 ? static_cast<const void *>(memory.data()) : problem.narrowB.data();
    std::vector<std::thread> pool;
    for (int part = 0; part < gemm.parts(); ++part) {
      pool.emplace_back([&, part] { gemm.runPart(part, problem.narrowA.data(), b, problem.biasAt(), problem.outAt()); });
    }
    for (std::thread &thread : pool) {
      thread.join();
    }
    REQUIRE(problem.narrowOut == one.narrowOut);
    REQUIRE(std::memcmp(problem.out.data(), one.out.data(), one.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("narrow: the bits of a row do not depend on the other rows", "[kernels][gemm]") {
  // 8 rows of a product of 64 rows are the product of these 8 rows; k is cut into more blocks where rows are few and B is large.
  std::mt19937 random(5);
  for (const uint32_t narrowOut : {0, 1}) {
    ashlar_rt_gemm_desc whole = {1, 64, 700, 1731, 0, 0, 1, ASHLAR_RT_EPILOGUE_RELU, 0, 0, 0, 0, ASHLAR_RT_BF16, narrowOut};
    Problem problem(whole, random), parts = problem;
    prepared(whole, 3).run(problem.narrowA.data(), problem.narrowB.data(), problem.biasAt(), problem.outAt());
    ashlar_rt_gemm_desc rows = whole;
    rows.m = 8;
    for (int64_t first = 0; first < whole.m; first += rows.m) {
      char *out = static_cast<char *>(parts.outAt()) + first * whole.n * (narrowOut != 0 ? 2 : 4);
      prepared(rows, 1).run(parts.narrowA.data() + first * whole.k, parts.narrowB.data(), parts.biasAt(), out);
    }
    REQUIRE(problem.narrowOut == parts.narrowOut);
    REQUIRE(std::memcmp(problem.out.data(), parts.out.data(), parts.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("narrow: running does not allocate; a type that is none is refused", "[kernels][gemm]") {
  std::mt19937 random(6);
  ashlar_rt_gemm_desc desc = {2, 50, 70, 600, 1, 1, 1, ASHLAR_RT_EPILOGUE_GELU_ERF, 0, 0, 0, 0, ASHLAR_RT_BF16, 1};
  Problem problem(desc, random);
  Gemm gemm = prepared(desc, 2);
  const uint64_t before = ashlar::test::allocations();
  gemm.run(problem.narrowA.data(), problem.narrowB.data(), problem.biasAt(), problem.outAt());
  REQUIRE(ashlar::test::allocations() == before);
  desc.narrow = ASHLAR_RT_F64;
  const Status status = Gemm::prepare(desc, 1, gemm);
  REQUIRE(status.message() == "matrix product of type 2, narrow result 1: the types are 7 and 6");
}

} // namespace ashlar::test::narrow_test
