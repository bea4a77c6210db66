// SPDX-License-Identifier: Apache-2.0
//
// Matrix products against the plain loops of runtime/kernels/reference, for every kernel that this processor can run.

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cpu/gemm.h"
#include "runtime/kernels/cpu/gemm_kernel.h"
#include "runtime/kernels/reference/gemm.h"
#include "test/unit/data/allocations.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace ashlar::test::gemm_test {

using namespace ashlar::rt;

namespace {

// The operands of one product, random in [-1, 1], and its result filled with NaN so that a place that nobody writes shows.
struct Problem {
  ashlar_rt_gemm_desc desc;
  std::vector<float> a, b, bias, out;

  Problem(const ashlar_rt_gemm_desc &desc, std::mt19937 &random)
      : desc(desc), a(desc.batch * desc.m * desc.k), b(desc.batch * desc.k * desc.n), bias(desc.n),
        out(desc.batch * desc.m * desc.n, std::numeric_limits<float>::quiet_NaN()) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::vector<float> *operand : {&a, &b, &bias}) {
      std::generate(operand->begin(), operand->end(), [&] { return uniform(random); });
    }
  }

  float absA(int64_t batch, int64_t i, int64_t p) const {
    return std::fabs(a[batch * desc.m * desc.k + (desc.transpose_a ? p * desc.m + i : i * desc.k + p)]);
  }
  float absB(int64_t batch, int64_t p, int64_t j) const {
    return std::fabs(b[batch * desc.k * desc.n + (desc.transpose_b ? j * desc.k + p : p * desc.n + j)]);
  }

  // Returns the largest error of `out` as a share of what is allowed.
  // Allowed: a chain of k + 1 rounded operations, (k + 2) 2^-24 sum |a| |b| (+ |bias|), times the largest slope of the activation (1.13,
  // gelu), plus 5e-7 max(|f|, 1) for the activation itself.
  double worstShare() const {
    std::vector<float> exact(out.size());
    referenceGemm(desc, a.data(), b.data(), bias.data(), exact.data());
    double worst = 0;
    for (int64_t batch = 0; batch < desc.batch; ++batch) {
      for (int64_t i = 0; i < desc.m; ++i) {
        for (int64_t j = 0; j < desc.n; ++j) {
          double sum = desc.addend != 0 ? std::fabs(bias[j]) : 0;
          for (int64_t p = 0; p < desc.k; ++p) {
            sum += static_cast<double>(absA(batch, i, p)) * absB(batch, p, j);
          }
          const size_t at = (batch * desc.m + i) * desc.n + j;
          const double smooth = desc.epilogue > ASHLAR_RT_EPILOGUE_RELU ? 5e-7 * std::max(1.0f, std::fabs(exact[at])) : 0;
          const double allowed = 1.13 * (static_cast<double>(desc.k) + 2) * 0x1p-24 * sum + smooth;
          const double error = std::fabs(static_cast<double>(out[at]) - exact[at]);
          worst = std::isnan(error) ? 1e9 : std::max(worst, error / allowed);
        }
      }
    }
    return worst;
  }
};

std::vector<const GemmKernel *> availableKernels() {
  std::vector<const GemmKernel *> kernels = {&gemmKernelGeneric()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernels.push_back(&gemmKernelAvx2());
  }
  if (__builtin_cpu_supports("avx512f")) {
    kernels.push_back(&gemmKernelAvx512());
  }
#endif
  return kernels;
}

// Runs a single product of one batch directly on a kernel, and once more with B ordered, which may change no bit; nor may it that the bias
// is what the result holds, to which the product is added.
void runKernel(const GemmKernel &kernel, Problem &problem) {
  const ashlar_rt_gemm_desc &d = problem.desc;
  constexpr float kBehind = -12345;
  const size_t elements = productWorkspaceBytes(d) / sizeof(float);
  std::vector<float> workspace(elements + 32, kBehind); // the last 16 and more are behind it
  void *start = workspace.data();
  size_t space = workspace.size() * sizeof(float);
  std::align(64, elements * sizeof(float), start, space);
  GemmPiece piece = {};
  piece.rows = d.m;
  piece.cols = d.n;
  piece.k = d.k;
  piece.a = problem.a.data();
  piece.aRow = d.transpose_a ? 1 : d.k;
  piece.aCol = d.transpose_a ? d.m : 1;
  piece.b = problem.b.data();
  piece.bRow = d.transpose_b ? 1 : d.n;
  piece.bCol = d.transpose_b ? d.k : 1;
  piece.bias = d.addend != 0 ? problem.bias.data() : nullptr;
  piece.out = problem.out.data();
  piece.outRow = d.n;
  piece.epilogue = d.epilogue;
  kernel.compute(piece, static_cast<float *>(start));
  const std::vector<float> inPlace = problem.out;
  const int64_t panels = (d.n + kernel.tileCols - 1) / kernel.tileCols;
  std::vector<float> ordered(panels * d.k * kernel.tileCols, std::numeric_limits<float>::quiet_NaN());
  for (int64_t panel = 0; panel < panels; ++panel) {
    GemmPiece columns = piece;
    columns.cols = std::min(kernel.tileCols, d.n - panel * kernel.tileCols);
    columns.b += panel * kernel.tileCols * piece.bCol;
    kernel.order(columns, ordered.data() + panel * d.k * kernel.tileCols);
  }
  piece.b = ordered.data();
  piece.isOrdered = true;
  kernel.compute(piece, static_cast<float *>(start));
  INFO(kernel.name << " ordered, m " << d.m << " n " << d.n << " k " << d.k);
  REQUIRE(std::memcmp(problem.out.data(), inPlace.data(), inPlace.size() * sizeof(float)) == 0);
  piece.accumulates = d.addend != 0;
  piece.bias = nullptr;
  for (int64_t i = 0; i < d.m && piece.accumulates; ++i) {
    std::copy(problem.bias.begin(), problem.bias.end(), problem.out.begin() + i * d.n);
  }
  kernel.compute(piece, static_cast<float *>(start));
  REQUIRE(std::memcmp(problem.out.data(), inPlace.data(), inPlace.size() * sizeof(float)) == 0);
  const float *behind = static_cast<float *>(start) + elements, *end = workspace.data() + workspace.size();
  REQUIRE(std::all_of(behind, end, [](float element) { return element == kBehind; }));
}

Gemm prepared(const ashlar_rt_gemm_desc &desc, int threads) {
  Gemm gemm;
  const Status status = Gemm::prepare(desc, threads, gemm);
  INFO(status.message());
  REQUIRE(status.ok());
  return gemm;
}

} // namespace

TEST_CASE("gemm kernels: random shapes, transposes and epilogues agree with the plain loops", "[kernels][gemm]") {
  // Every kernel of this processor, shapes around its tile and beyond one block of k and of rows.
  std::mt19937 random(1);
  for (const GemmKernel *kernel : availableKernels()) {
    double worst = 0;
    for (int round = 0; round < 150; ++round) {
      const auto size = [&](int64_t small, int64_t large) {
        return 1 + static_cast<int64_t>(random() % (round % 10 == 0 ? large : small));
      };
      const ashlar_rt_gemm_desc desc = {1,
                                        size(40, 450),
                                        size(80, 330),
                                        size(50, 900),
                                        static_cast<uint32_t>(random() % 2),
                                        static_cast<uint32_t>(random() % 2),
                                        static_cast<uint32_t>(random() % 2),
                                        static_cast<uint32_t>(random() % 6)};
      Problem problem(desc, random);
      runKernel(*kernel, problem);
      const double share = problem.worstShare();
      INFO(kernel->name << " m " << desc.m << " n " << desc.n << " k " << desc.k << " ta " << desc.transpose_a << " tb " << desc.transpose_b
                        << " bias " << desc.addend << " epilogue " << desc.epilogue);
      REQUIRE(share <= 1);
      worst = std::max(worst, share);
    }
    WARN(kernel->name << ": worst error is " << 100 * worst << " % of the allowance, seed 1");
  }
}

TEST_CASE("gemm kernels: blocks of rows share panels of B, some columns at a time", "[kernels][gemm]") {
  std::mt19937 random(2);
  for (const GemmKernel *kernel : availableKernels()) {
    for (const uint32_t transposed : {0, 1}) {
      const ashlar_rt_gemm_desc desc = {1, 400, kProductKeptCols + 37, 767, transposed, transposed, /*addend=*/1, ASHLAR_RT_EPILOGUE_RELU};
      Problem problem(desc, random);
      runKernel(*kernel, problem);
      INFO(kernel->name << ", transposed " << transposed);
      REQUIRE(problem.worstShare() <= 1);
    }
  }
}

TEST_CASE("gemm: batches and threads cover the whole result", "[kernels][gemm]") {
  // Parts run in threads at once; the NaN that fills `out` shows a gap.
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const ashlar_rt_gemm_desc desc = {1 + static_cast<int64_t>(random() % 5),  1 + static_cast<int64_t>(random() % 70),
                                      1 + static_cast<int64_t>(random() % 90), 1 + static_cast<int64_t>(random() % 60),
                                      static_cast<uint32_t>(random() % 2),     static_cast<uint32_t>(random() % 2),
                                      static_cast<uint32_t>(random() % 2),     static_cast<uint32_t>(random() % 3)};
    const int threads = 1 + static_cast<int>(random() % 7);
    Problem problem(desc, random);
    Gemm gemm = prepared(desc, threads);
    REQUIRE(gemm.parts() >= 1);
    REQUIRE(gemm.parts() <= threads);
    std::vector<std::thread> pool;
    for (int part = 0; part < gemm.parts(); ++part) {
      pool.emplace_back([&, part] { gemm.runPart(part, problem.a.data(), problem.b.data(), problem.bias.data(), problem.out.data()); });
    }
    for (std::thread &thread : pool) {
      thread.join();
    }
    INFO("batch " << desc.batch << " m " << desc.m << " n " << desc.n << " k " << desc.k << " threads " << threads);
    REQUIRE(problem.worstShare() <= 1);
  }
}

TEST_CASE("gemm: the bits do not depend on threads or on the other rows", "[kernels][gemm]") {
  // What makes a data-parallel run repeat the numbers of one rank: 8 rows of a product of 64 rows are the product of these 8 rows.
  std::mt19937 random(3);
  const ashlar_rt_gemm_desc whole = {1, 64, 200, 700, 0, 0, 1, ASHLAR_RT_EPILOGUE_RELU};
  Problem problem(whole, random);
  prepared(whole, 1).run(problem.a.data(), problem.b.data(), problem.bias.data(), problem.out.data());
  std::vector<float> other(problem.out.size());
  prepared(whole, 5).run(problem.a.data(), problem.b.data(), problem.bias.data(), other.data());
  REQUIRE(std::memcmp(problem.out.data(), other.data(), other.size() * sizeof(float)) == 0);
  ashlar_rt_gemm_desc rows = whole;
  rows.m = 8;
  for (int64_t first = 0; first < whole.m; first += rows.m) {
    prepared(rows, 1).run(problem.a.data() + first * whole.k, problem.b.data(), problem.bias.data(), other.data() + first * whole.n);
  }
  REQUIRE(std::memcmp(problem.out.data(), other.data(), other.size() * sizeof(float)) == 0);
}

TEST_CASE("gemm: fixed weights are ordered once, and change no bit", "[kernels][gemm]") {
  std::mt19937 random(6);
  for (int round = 0; round < 120; ++round) {
    const auto size = [&](int64_t small, int64_t large) { return 1 + static_cast<int64_t>(random() % (round % 10 == 0 ? large : small)); };
    ashlar_rt_gemm_desc desc = {size(3, 2),
                                size(40, 450),
                                size(80, 330),
                                size(60, 2600),
                                static_cast<uint32_t>(random() % 2),
                                static_cast<uint32_t>(random() % 2),
                                static_cast<uint32_t>(random() % 2),
                                static_cast<uint32_t>(random() % 6)};
    const int threads = 1 + static_cast<int>(random() % 3);
    INFO("batch " << desc.batch << " m " << desc.m << " n " << desc.n << " k " << desc.k << " ta " << desc.transpose_a << " tb "
                  << desc.transpose_b << " threads " << threads);
    Problem problem(desc, random);
    Gemm plain = prepared(desc, threads);
    plain.run(problem.a.data(), problem.b.data(), problem.bias.data(), problem.out.data());
    REQUIRE(problem.worstShare() <= 1);
    const std::vector<float> expected = problem.out;
    desc.fixed_weights = 1;
    Gemm fixed = prepared(desc, threads);
    GemmWorkspace memory;
    const uint64_t bytes = orderedWeightBytes(desc);
    REQUIRE(memory.reserve(bytes).ok());
    std::fill(memory.data(), memory.data() + bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    for (int piece = 0; piece < fixed.orderedPieces(); ++piece) {
      fixed.order(piece, problem.b.data(), memory.data());
    }
    std::fill(problem.b.begin(), problem.b.end(), std::numeric_limits<float>::quiet_NaN()); // it is not looked at again
    std::fill(problem.out.begin(), problem.out.end(), std::numeric_limits<float>::quiet_NaN());
    fixed.run(problem.a.data(), memory.data(), problem.bias.data(), problem.out.data());
    REQUIRE(std::memcmp(problem.out.data(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("gemm: products are added to what their results hold", "[kernels][gemm]") {
  // Bit by bit that with a bias, for rows that hold it; of every batch, by several threads, and of bf16.
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    ashlar_rt_gemm_desc desc = {3, 1 + static_cast<int64_t>(random() % 60), 1 + static_cast<int64_t>(random() % 90),
                                1 + static_cast<int64_t>(random() % 900)};
    desc.addend = ASHLAR_RT_ADDEND_BIAS;
    Problem problem(desc, random);
    Gemm(prepared(desc, 3)).run(problem.a.data(), problem.b.data(), problem.bias.data(), problem.out.data());
    std::vector<float> held(problem.out.size());
    for (size_t row = 0; row < held.size(); row += desc.n) {
      std::copy(problem.bias.begin(), problem.bias.end(), held.begin() + static_cast<int64_t>(row));
    }
    desc.addend = ASHLAR_RT_ADDEND_OUT;
    Gemm(prepared(desc, 3)).run(problem.a.data(), problem.b.data(), nullptr, held.data());
    REQUIRE(std::memcmp(problem.out.data(), held.data(), held.size() * sizeof(float)) == 0);
  }
  Gemm gemm;
  ashlar_rt_gemm_desc desc = {1, 4, 4, 4};
  desc.addend = ASHLAR_RT_ADDEND_OUT;
  desc.narrow = ASHLAR_RT_BF16;
  desc.narrow_out = 1;
  CHECK(Gemm::prepare(desc, 1, gemm).message() == "matrix product that is added to a result of type 7, which has to be f32");
}

TEST_CASE("gemm: activations are exact enough over the whole range", "[kernels][gemm]") {
  // k = 1 with a = 1 makes the product the identity, so the epilogue's own error is seen. NaN stays NaN, infinities have their limits.
  const int64_t count = 4001;
  std::vector<float> x(count), out(count);
  for (int64_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>(i - 2000) * 0.01f;
  }
  x[0] = -1e30f;
  x[1] = 1e30f;
  x[2] = -std::numeric_limits<float>::infinity();
  x[3] = std::numeric_limits<float>::quiet_NaN();
  const float one = 1;
  for (uint32_t epilogue = ASHLAR_RT_EPILOGUE_RELU; epilogue <= ASHLAR_RT_EPILOGUE_TANH; ++epilogue) {
    const ashlar_rt_gemm_desc desc = {1, 1, count, 1, 0, 0, 0, epilogue};
    prepared(desc, 1).run(&one, x.data(), nullptr, out.data());
    INFO("epilogue " << epilogue);
    CHECK(std::isnan(out[3]));
    for (int64_t i = 4; i < count; ++i) {
      const double exact = referenceEpilogue(epilogue, x[i]);
      INFO("x " << x[i] << " got " << out[i] << " exact " << exact);
      REQUIRE(std::fabs(out[i] - exact) <= 5e-7 * std::max(1.0, std::fabs(exact)));
    }
    CHECK(out[0] == Approx(epilogue == ASHLAR_RT_EPILOGUE_TANH ? -1 : 0).margin(1e-6));
    CHECK(out[1] == Approx(epilogue <= ASHLAR_RT_EPILOGUE_GELU_TANH ? 1e30f : 1));
  }
}

TEST_CASE("gemm: activations keep special values, the same at every position", "[kernels][gemm]") {
  const float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  std::vector<float> values = {0,  infinity, largest, 1e-40f, 0x1p-149f, 0x1p-126f, 1e-10f, 1,
                               17, 88.7f,    88.8f,   100,    103.5f,    105,       1e20f,  1e30f};
  for (size_t i = 0, count = values.size(); i < count; ++i) {
    values.push_back(-values[i]);
  }
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  std::mt19937 random(1);
  for (const GemmKernel *kernel : availableKernels()) {
    for (uint32_t epilogue = ASHLAR_RT_EPILOGUE_RELU; epilogue <= ASHLAR_RT_EPILOGUE_TANH; ++epilogue) {
      const int64_t count = 77; // more than one tile, and a rest
      std::vector<float> first(values.size(), 5);
      for (size_t shift = 0; shift < values.size(); ++shift) {
        Problem problem({1, 1, count, 1, 0, 0, 0, epilogue}, random);
        problem.a[0] = 1;
        for (int64_t i = 0; i < count; ++i) {
          problem.b[i] = values[(i + shift) % values.size()];
        }
        runKernel(*kernel, problem);
        for (int64_t i = 0; i < count; ++i) {
          const size_t which = (i + shift) % values.size();
          const double exact = referenceEpilogue(epilogue, values[which]);
          const float found = problem.out[i];
          INFO(kernel->name << ", epilogue " << epilogue << " of " << values[which] << " at " << i << " is " << found << ", exactly "
                            << exact);
          if (!std::isfinite(exact) || !std::isfinite(found)) {
            REQUIRE(std::isnan(exact) == std::isnan(found));
            REQUIRE((std::isnan(exact) || exact == found));
          } else {
            REQUIRE(std::fabs(found - exact) <= 5e-7 * (std::fabs(exact) > 1 ? std::fabs(exact) : 1));
            REQUIRE((epilogue != ASHLAR_RT_EPILOGUE_SIGMOID || std::fabs(found - exact) <= 3e-7 * exact + 0x1p-149));
          }
          if (shift == 0 && i < static_cast<int64_t>(values.size())) {
            first[which] = found;
          }
          REQUIRE((std::isnan(found) || found == first[which]));
        }
      }
    }
  }
}

TEST_CASE("gemm: refuses a size of 0 and an unknown epilogue", "[kernels][gemm]") {
  // Both can only come from a broken image.
  Gemm gemm;
  Status status = Gemm::prepare({1, 0, 4, 4, 0, 0, 0, 0}, 1, gemm);
  REQUIRE(status.code() == StatusCode::kInternal);
  REQUIRE(status.message() == "matrix product of size 1 x 0 x 4 x 4 (batch, m, n, k): every size must be at least 1");
  status = Gemm::prepare({1, 4, 4, 4, 0, 0, 0, 99}, 1, gemm);
  REQUIRE(status.message() == "matrix product with epilogue 99: the last known one is 5");
}

TEST_CASE("gemm: products that share a workspace run one after the other", "[kernels][gemm]") {
  // The second product makes the workspace grow after the first was prepared.
  std::mt19937 random(5);
  GemmWorkspace workspace;
  Problem small({1, 7, 9, 30, 0, 1, 0, 0}, random), large({1, 300, 100, 500, 1, 0, 0, 0}, random);
  Gemm first, second;
  REQUIRE(Gemm::prepare(small.desc, 1, first, &workspace).ok());
  REQUIRE(Gemm::prepare(large.desc, 4, second, &workspace).ok());
  REQUIRE(second.parts() > 1);
  second.run(large.a.data(), large.b.data(), nullptr, large.out.data());
  first.run(small.a.data(), small.b.data(), nullptr, small.out.data());
  REQUIRE(large.worstShare() <= 1);
  REQUIRE(small.worstShare() <= 1);
}

TEST_CASE("gemm: running does not allocate", "[kernels][gemm]") {
  std::mt19937 random(4);
  const ashlar_rt_gemm_desc desc = {2, 50, 70, 600, 1, 1, 1, ASHLAR_RT_EPILOGUE_GELU_ERF};
  Problem problem(desc, random);
  Gemm gemm = prepared(desc, 2);
  const uint64_t before = ashlar::test::allocations();
  for (int i = 0; i < 5; ++i) {
    gemm.run(problem.a.data(), problem.b.data(), problem.bias.data(), problem.out.data());
  }
  REQUIRE(ashlar::test::allocations() == before);
  // The counter counts.
  void *volatile pointer = std::malloc(100);
  std::free(pointer);
  REQUIRE(ashlar::test::allocations() > before);
}

} // namespace ashlar::test::gemm_test
