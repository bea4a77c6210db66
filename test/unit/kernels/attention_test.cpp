// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradients against plain loops in f64, for every kernel that this processor can run.

#include "runtime/abi/memory_sizes.h"
#include "test/unit/data/allocations.h"
#include "test/unit/kernels/attention_problem.h"

namespace ashlar::test::attention_test {

using namespace ashlar::rt;
using namespace ashlar::rt::test::attention;

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

} // namespace ashlar::test::attention_test
