// SPDX-License-Identifier: Apache-2.0
//
// Attention of few rows, as in the generation of one token at a time: against plain loops, and against the same rows among many.

#include "runtime/abi/memory_sizes.h"
#include "test/unit/data/allocations.h"
#include "test/unit/kernels/attention_problem.h"

#include <sys/mman.h>

namespace ashlar::test::attention_few_test {

using namespace ashlar::rt;
using namespace ashlar::rt::test::attention;

namespace {

// Returns a step of generation: rows that continue `keys` keys, with positions.
ashlar_rt_attention_desc step(int64_t batch, int64_t heads, int64_t keyHeads, int64_t rows, int64_t keys, int64_t width,
                              int64_t valueWidth) {
  ashlar_rt_attention_desc desc = square(batch, heads, keyHeads, rows, keys, width, valueWidth);
  desc.causal = desc.positions = 1;
  return desc;
}

// Has row 0 see the keys up to number `position`.
void place(Problem &problem, int64_t position) {
  for (int64_t i = 0; i < problem.desc.rows; ++i) {
    problem.rowPositions[i] = 1000 + position + i;
  }
  for (int64_t j = 0; j < problem.desc.keys; ++j) {
    problem.keyPositions[j] = 1000 + j;
  }
}

// Returns random sizes and options of few rows; every fourth round has several blocks of keys.
ashlar_rt_attention_desc randomStep(int round, std::mt19937 &random) {
  constexpr int64_t kRows[] = {1, 1, 2, 3, 5, 8};
  const int64_t rows = kRows[random() % 6], keyHeads = 1 + random() % 3, shared = 1 + random() % (kAttentionFewRows / rows);
  const int64_t keys = 1 + random() % (round % 4 == 0 ? 900 : 60);
  const bool isTypical = round % 2 == 0;
  const int64_t width = isTypical ? 64 : 1 + random() % 150, valueWidth = isTypical ? 64 : 1 + random() % 150;
  ashlar_rt_attention_desc desc = square(1 + random() % 2, keyHeads * shared, keyHeads, rows, keys, width, valueWidth);
  desc.dtype = random() % 3 == 0 ? ASHLAR_RT_BF16 : ASHLAR_RT_F32;
  desc.causal = desc.positions = random() % 4 != 0 ? 1 : 0;
  desc.window = desc.causal != 0 && random() % 3 == 0 ? 1 + random() % keys : 0;
  desc.softcap = random() % 4 == 0 ? 2.0f : 0.0f;
  desc.scale = random() % 8 == 0 ? -desc.scale : desc.scale;
  if (random() % 6 == 0) {
    desc.dropout = 0.5f;
    desc.kept = 2;
  }
  REQUIRE(hasFewRows(desc));
  return desc;
}

} // namespace

TEST_CASE("few rows: random steps agree with the plain loops, inside rows of heads or not", "[kernels][attention]") {
  for (const AttentionKernel *kernel : availableKernels()) {
    std::mt19937 random(1);
    double worst = 0, worstWide = 0;
    for (int round = 0; round < 120; ++round) {
      Problem problem(randomStep(round, random), random, round < 110 ? 2.0f : 100.0f);
      place(problem, static_cast<int64_t>(random() % (problem.desc.keys + 2)) - 1); // also one that sees no key, and one behind all
      if (const uint32_t mask = kMasks[random() % 4]) {
        problem.addMask(mask, random() % 16, random);
      }
      Problem inside = problem;
      problem.run(*kernel, 1 + static_cast<int>(random() % 3));
      INFO(kernel->name << " round " << round << ": " << problem.description() << " position " << problem.rowPositions[0] - 1000);
      const double share = Exact(problem).worstShare(problem);
      REQUIRE(share <= 1);
      double &worstOfType = problem.desc.dtype == ASHLAR_RT_F32 ? worstWide : worst;
      worstOfType = std::max(worstOfType, share);
      inside.desc.heads_inside = random() % 16;
      inside.swapHeads(/*isBack=*/false);
      inside.run(*kernel, 2);
      inside.swapHeads(/*isBack=*/true);
      REQUIRE(inside.hasBitsOf(problem));
    }
    WARN(kernel->name << ": worst error is " << 100 * worstWide << " % of the allowance in f32, " << 100 * worst << " % in bf16, seed 1");
  }
}

TEST_CASE("few rows: a row has the bits that it has among many", "[kernels][attention]") {
  std::mt19937 random(2);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (int round = 0; round < 24; ++round) {
      constexpr int64_t kMany = 40;
      ashlar_rt_attention_desc desc = step(1, 3, 1, kMany, 700, round % 2 == 0 ? 64 : 37, round % 3 == 0 ? 64 : 43);
      desc.dtype = round % 4 == 3 ? ASHLAR_RT_BF16 : ASHLAR_RT_F32;
      desc.window = round % 5 == 1 ? 250 : 0;
      desc.softcap = round % 7 == 1 ? 3.0f : 0.0f;
      Problem many(desc, random);
      place(many, round < 4 ? round : static_cast<int64_t>(random() % 690));
      if (round % 3 == 1) {
        many.addMask(kMasks[1 + random() % 3], /*broadcast=*/1 << 2, random);
      }
      many.run(*kernel, 2);
      desc.mask = many.desc.mask;
      std::copy_n(many.desc.mask_strides, 4, desc.mask_strides);
      desc.rows = 1 + round % 2;
      Problem few(desc, random);
      few.k = many.k;
      few.v = many.v;
      few.added = many.added;
      few.seen = many.seen;
      for (int64_t first = 0; first + desc.rows <= kMany; first += 7) {
        place(few, many.rowPositions[first] - 1000);
        const auto eachRow = [&](const auto &use) {
          for (int64_t head = 0; head < desc.heads; ++head) {
            for (int64_t i = 0; i < desc.rows; ++i) {
              use(head * desc.rows + i, head * kMany + first + i);
            }
          }
        };
        eachRow([&](int64_t row, int64_t from) {
          for (int64_t p = 0; p < desc.width; ++p) {
            few.q.set(row * desc.width + p, many.q.at(from * desc.width + p));
          }
        });
        few.run(*kernel, 3);
        INFO(kernel->name << ": " << few.description() << " row " << first << " position " << few.rowPositions[0] - 1000);
        eachRow([&](int64_t row, int64_t from) {
          REQUIRE(std::memcmp(&few.lse[row], &many.lse[from], sizeof(float)) == 0);
          for (int64_t c = 0; c < desc.value_width; ++c) {
            const double one = few.out.at(row * desc.value_width + c), other = many.out.at(from * desc.value_width + c);
            // A row that sees no key, as the mask may have it, is NaN.
            REQUIRE((std::isinf(few.lse[row]) ? std::isnan(one) && std::isnan(other) : one == other));
          }
        });
      }
    }
  }
}

TEST_CASE("few rows: the bits do not depend on threads, and positions may change from run to run", "[kernels][attention]") {
  std::mt19937 random(3);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (int64_t keyHeads : {1, 2, 5}) {
      ashlar_rt_attention_desc desc = step(1, keyHeads * 2, keyHeads, 2, 1000, 64, 64);
      Problem one(desc, random), several = one;
      Attention alone;
      REQUIRE(Attention::prepare(desc, 1, *kernel, alone).ok());
      REQUIRE(alone.parts() == 1);
      for (int threads : {2, 3, 7, 40}) {
        Attention attention;
        REQUIRE(Attention::prepare(desc, threads, *kernel, attention).ok());
        REQUIRE(attention.parts() == std::min<int64_t>(threads, keyHeads * 6));
        for (int64_t position : {998, 0, 191, 192, 500, -2, 383}) {
          place(one, position);
          place(several, position);
          one.runParts(alone);
          several.runParts(attention);
          INFO(kernel->name << ": " << one.description() << " threads " << threads << " position " << position);
          REQUIRE(several.hasBitsOf(one));
        }
      }
    }
  }
}

namespace {

// Memory for `bytes` bytes behind which nothing can be read.
class Guarded {
public:
  explicit Guarded(size_t bytes) : pages((bytes + kPage - 1) / kPage * kPage) {
    memory = static_cast<char *>(mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory != MAP_FAILED);
    REQUIRE(mprotect(memory + pages, kPage, PROT_NONE) == 0);
    first = memory + pages - bytes;
  }
  ~Guarded() { munmap(memory, pages + kPage); }
  Guarded(const Guarded &) = delete;
  Guarded &operator=(const Guarded &) = delete;

  char *first = nullptr;

private:
  static constexpr size_t kPage = 4096;
  size_t pages;
  char *memory = nullptr;
};

} // namespace

TEST_CASE("few rows: keys and values that no row sees are not read", "[kernels][attention]") {
  std::mt19937 random(4);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (int64_t width : {64, 37}) {
      for (uint32_t dtype : {ASHLAR_RT_F32, ASHLAR_RT_BF16}) {
        ashlar_rt_attention_desc desc = step(1, 2, 1, 2, 800, width, width);
        desc.dtype = dtype;
        Problem problem(desc, random);
        Attention attention;
        REQUIRE(Attention::prepare(desc, 2, *kernel, attention).ok());
        for (int64_t position : {0, 5, 30, 191, 192, 600}) {
          place(problem, position);
          problem.runParts(attention);
          const Problem whole = problem;
          const size_t bytes = (position + desc.rows) * width * (dtype == ASHLAR_RT_F32 ? 4 : 2);
          Guarded keys(bytes), values(bytes);
          std::memcpy(keys.first, problem.k.data(), bytes);
          std::memcpy(values.first, problem.v.data(), bytes);
          std::vector<void *> buffers = problem.buffers(/*isBackward=*/false);
          buffers[1] = keys.first;
          buffers[2] = values.first;
          problem.out = Tensor(dtype, problem.out.size());
          buffers[5] = problem.out.data();
          attention.run(buffers.data());
          INFO(kernel->name << ": " << problem.description() << " position " << position);
          REQUIRE(problem.hasBitsOf(whole));
        }
      }
    }
  }
}

TEST_CASE("few rows: rows that see no key are NaN", "[kernels][attention]") {
  std::mt19937 random(5);
  for (const AttentionKernel *kernel : availableKernels()) {
    for (uint32_t mask : kMasks) {
      Problem problem(step(1, 2, 1, 3, 450, 64, 20), random);
      problem.before = 1;
      place(problem, mask == 0 ? -2 : 400); // without a mask, rows 0 and 1 see nothing, row 2 one key
      if (mask != 0) {
        problem.addMask(mask, 0, random);
        for (int64_t j = 0; j < 450; ++j) { // row 1 of head 1
          mask == ASHLAR_RT_BOOL ? void(problem.seen[4 * 450 + j] = 0) : problem.added.set(4 * 450 + j, -kInfinity);
        }
      }
      problem.run(*kernel, 2);
      INFO(kernel->name << ": " << problem.description());
      for (int64_t row = 0; row < 6; ++row) {
        const bool isBlind = mask == 0 ? row % 3 < 2 : row == 4;
        REQUIRE((problem.lse[row] == -kInfinity) == isBlind);
        for (int64_t c = 0; c < 20; ++c) {
          REQUIRE(std::isnan(problem.out.at(row * 20 + c)) == isBlind);
        }
      }
      REQUIRE(Exact(problem).worstShare(problem) <= 1);
    }
  }
}

TEST_CASE("few rows: memory does not hold the keys, and a run does not allocate", "[kernels][attention]") {
  std::mt19937 random(6);
  Problem problem(step(1, 12, 12, 1, 1024, 64, 64), random);
  REQUIRE(attentionWorkspaceBytes(problem.desc) < problem.desc.keys * problem.desc.width * sizeof(float));
  place(problem, 1000);
  Attention attention;
  REQUIRE(Attention::prepare(problem.desc, 2, attention).ok());
  std::vector<void *> buffers = problem.buffers(/*isBackward=*/false);
  const uint64_t before = ashlar::test::allocations();
  attention.run(buffers.data());
  REQUIRE(ashlar::test::allocations() == before);
}

} // namespace ashlar::test::attention_few_test
