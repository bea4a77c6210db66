// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of integers of 8 bits against plain loops, for every kernel that this processor can run: every bit has to agree.

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cpu/bytes.h"
#include "runtime/kernels/cpu/gemm.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

namespace ashlar::test::bytes_test {

using namespace ashlar::rt;

namespace {

std::vector<const ByteKernel *> availableKernels() {
  std::vector<const ByteKernel *> kernels = {&byteKernelGeneric()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    kernels.push_back(&byteKernelAvx2());
  }
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) {
    kernels.push_back(&byteKernelAvx512());
  }
  if (hasAmx()) {
    kernels.push_back(&byteKernelAmx());
  }
#endif
  return kernels;
}

// Bytes of one product, a third of them at the ends of their range, and its result by plain loops.
struct Problem {
  ashlar_rt_gemm_desc desc;
  std::vector<uint8_t> a, b;
  std::vector<uint32_t> expected;

  Problem(const ashlar_rt_gemm_desc &desc, std::mt19937 &random)
      : desc(desc), a(desc.batch * desc.m * desc.k), b(desc.batch * desc.k * desc.n), expected(desc.batch * desc.m * desc.n) {
    for (std::vector<uint8_t> *operand : {&a, &b}) {
      constexpr uint8_t kEnds[] = {0, 127, 128, 255};
      std::generate(operand->begin(), operand->end(),
                    [&] { return random() % 3 == 0 ? kEnds[random() % 4] : static_cast<uint8_t>(random()); });
    }
    for (int64_t batch = 0; batch < desc.batch; ++batch) {
      for (int64_t i = 0; i < desc.m; ++i) {
        for (int64_t j = 0; j < desc.n; ++j) {
          int64_t sum = 0;
          for (int64_t p = 0; p < desc.k; ++p) {
            sum += number(a, batch * desc.m * desc.k + (desc.transpose_a != 0 ? p * desc.m + i : i * desc.k + p), ASHLAR_RT_SIGNED_A) *
                   number(b, batch * desc.k * desc.n + (desc.transpose_b != 0 ? j * desc.k + p : p * desc.n + j), ASHLAR_RT_SIGNED_B);
          }
          expected[(batch * desc.m + i) * desc.n + j] = static_cast<uint32_t>(sum);
        }
      }
    }
  }

  int64_t number(const std::vector<uint8_t> &bytes, int64_t at, uint32_t signedOperand) const {
    return (desc.bytes & signedOperand) != 0 ? static_cast<int8_t>(bytes[at]) : bytes[at];
  }
};

ashlar_rt_gemm_desc randomDesc(std::mt19937 &random, int round) {
  const auto size = [&](int64_t small, int64_t large) { return 1 + static_cast<int64_t>(random() % (round % 10 == 0 ? large : small)); };
  ashlar_rt_gemm_desc desc = {};
  desc.batch = size(3, 2);
  desc.m = size(30, 250);
  desc.n = size(70, 200);
  desc.k = round % 25 == 0 ? 4000 + size(6000, 6000) : size(60, 2500); // several blocks of k, too
  desc.transpose_a = random() % 2;
  desc.transpose_b = random() % 2;
  desc.fixed_weights = random() % 2;
  desc.bytes = ASHLAR_RT_BYTES | (random() % 4) * ASHLAR_RT_SIGNED_A;
  return desc;
}

std::string describe(const ashlar_rt_gemm_desc &d) {
  return fmt::format("batch {} m {} n {} k {} ta {} tb {} fixed {} bytes {}", d.batch, d.m, d.n, d.k, d.transpose_a, d.transpose_b,
                     d.fixed_weights, d.bytes);
}

} // namespace

TEST_CASE("bytes: every kernel computes every bit of random products", "[kernels][gemm]") {
  std::mt19937 random(1);
  for (const ByteKernel *kernel : availableKernels()) {
    for (int round = 0; round < 150; ++round) {
      ashlar_rt_gemm_desc desc = randomDesc(random, round);
      desc.batch = 1;
      INFO(kernel->name << " " << describe(desc));
      const Problem problem(desc, random);
      std::vector<uint32_t> ordered(orderedWeightBytes(desc) / sizeof(uint32_t), 0xdeadbeef), out(problem.expected.size(), 77);
      for (int64_t panel = 0; desc.fixed_weights != 0 && panel * kernel->tileCols < desc.n; ++panel) {
        orderBytes(desc, *kernel, panel, problem.b.data(), ordered.data());
      }
      GemmWorkspace workspace;
      REQUIRE(workspace.reserve(productWorkspaceBytes(desc)).ok());
      // A piece from the second strip and panel on, and what is left of it.
      const int64_t row = std::min(desc.m, kernel->tileRows), col = std::min(desc.n, kernel->tileCols);
      const void *b = desc.fixed_weights != 0 ? static_cast<const void *>(ordered.data()) : problem.b.data();
      for (const Range rows : {Range{0, row}, Range{row, desc.m}}) {
        for (const Range cols : {Range{0, col}, Range{col, desc.n}}) {
          if (rows.begin < rows.end && cols.begin < cols.end) {
            multiplyBytes(desc, *kernel, rows, cols, problem.a.data(), b, out.data(), workspace.data());
          }
        }
      }
      REQUIRE(out == problem.expected);
    }
  }
}

TEST_CASE("bytes: batches, threads and fixed weights", "[kernels][gemm]") {
  std::mt19937 random(2);
  for (int round = 0; round < 80; ++round) {
    const ashlar_rt_gemm_desc desc = randomDesc(random, round);
    const int threads = 1 + static_cast<int>(random() % 5);
    INFO(describe(desc) << ", " << threads << " threads");
    Problem problem(desc, random);
    Gemm gemm;
    GemmWorkspace workspace, ordered;
    REQUIRE(Gemm::prepare(desc, threads, gemm, &workspace).ok());
    REQUIRE(gemm.parts() <= threads);
    REQUIRE(workspace.bytes() == gemm.parts() * productWorkspaceBytes(desc));
    REQUIRE(ordered.reserve(std::max<uint64_t>(orderedWeightBytes(desc), 1)).ok());
    for (int piece = 0; desc.fixed_weights != 0 && piece < gemm.orderedPieces(); ++piece) {
      gemm.order(piece, problem.b.data(), ordered.data());
    }
    std::vector<uint32_t> out(problem.expected.size(), 77);
    gemm.run(problem.a.data(), desc.fixed_weights != 0 ? static_cast<const void *>(ordered.data()) : problem.b.data(), nullptr, out.data());
    REQUIRE(out == problem.expected);
  }
}

TEST_CASE("bytes: sums wrap around", "[kernels][gemm]") {
  // 40000 products of 255 and 255 are more than 2^31, 80000 more than 2^32.
  std::mt19937 random(3);
  for (const int64_t k : {40000, 80000}) {
    ashlar_rt_gemm_desc desc = {1, 2, 3, k, 0, 0, 0, 0, 0, 0, /*fixed_weights=*/0, ASHLAR_RT_BYTES};
    Problem problem(desc, random);
    std::fill(problem.a.begin(), problem.a.end(), 255);
    std::fill(problem.b.begin(), problem.b.end(), 255);
    for (const ByteKernel *kernel : availableKernels()) {
      GemmWorkspace workspace;
      REQUIRE(workspace.reserve(productWorkspaceBytes(desc)).ok());
      std::vector<uint32_t> out(6);
      multiplyBytes(desc, *kernel, {0, 2}, {0, 3}, problem.a.data(), problem.b.data(), out.data(), workspace.data());
      INFO(kernel->name);
      REQUIRE(out == std::vector<uint32_t>(6, static_cast<uint32_t>(uint64_t{255} * 255 * k)));
    }
  }
}

TEST_CASE("bytes: refuses a bias and an activation", "[kernels][gemm]") {
  Gemm gemm;
  const Status status =
      Gemm::prepare({1, 4, 4, 4, 0, 0, /*addend=*/ASHLAR_RT_ADDEND_BIAS, ASHLAR_RT_EPILOGUE_RELU, 0, 0, 0, ASHLAR_RT_BYTES}, 1, gemm);
  REQUIRE(status.code() == StatusCode::kInternal);
  REQUIRE(status.message() == "matrix product of integers with addend 1, epilogue 1: it has none");
}

} // namespace ashlar::test::bytes_test
