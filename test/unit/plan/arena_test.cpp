// SPDX-License-Identifier: Apache-2.0
//
// The arena packer on random lifetimes, against checks that look at every pair and every time.

#include "passes/lower/memory/arena.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <random>

namespace ashlar::test::arena_test {

using lower::Lifetime;

namespace {

std::vector<Lifetime> randomLifetimes(std::mt19937_64 &random, size_t count, int64_t times) {
  std::vector<Lifetime> buffers(count);
  for (Lifetime &buffer : buffers) {
    buffer.first = random() % times;
    buffer.last = std::min<int64_t>(times - 1, buffer.first + random() % (1 + times / 4));
    buffer.bytes = 1 + random() % (random() % 4 == 0 ? 100000 : 1000);
  }
  return buffers;
}

// The pass-through of a training step: activation i lives from the forward to the backward pass of its layer, gradients live shortly.
std::vector<Lifetime> trainingLifetimes(std::mt19937_64 &random, int64_t layers) {
  std::vector<Lifetime> buffers;
  for (int64_t i = 0; i < layers; ++i) {
    uint64_t bytes = 4 * 64 * (64 + random() % 8 * 64);
    int64_t forward = 3 * i, backward = 6 * layers - 3 * i;
    buffers.push_back({forward, backward, bytes});
    buffers.push_back({forward, forward + 1, bytes});
    buffers.push_back({backward - 1, backward + 2, bytes});
    buffers.push_back({backward, backward + 1, random() % 1000000});
  }
  return buffers;
}

bool overlap(const Lifetime &a, uint64_t aOffset, const Lifetime &b, uint64_t bOffset) {
  bool inTime = a.first <= b.last && b.first <= a.last;
  bool inSpace = a.bytes > 0 && b.bytes > 0 && aOffset < bOffset + b.bytes && bOffset < aOffset + a.bytes;
  return inTime && inSpace;
}

bool anyOverlap(const std::vector<Lifetime> &buffers, const std::vector<uint64_t> &offsets) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (overlap(buffers[i], offsets[i], buffers[j], offsets[j])) {
        return true;
      }
    }
  }
  return false;
}

uint64_t liveAt(const std::vector<Lifetime> &buffers, int64_t time) {
  uint64_t bytes = 0;
  for (const Lifetime &buffer : buffers) {
    bytes += buffer.first <= time && time <= buffer.last ? lower::alignedBytes(buffer.bytes) : 0;
  }
  return bytes;
}

} // namespace

TEST_CASE("arena: plans of random lifetimes have no overlap and are aligned", "[plan][arena]") {
  uint64_t seed = test::testSeed();
  INFO("ASHLAR_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> buffers = randomLifetimes(random, random() % 60, /*times=*/80);
    lower::ArenaPlan plan = lower::packArena(buffers);
    REQUIRE_FALSE(anyOverlap(buffers, plan.offsets));
    for (size_t i = 0; i < buffers.size(); ++i) {
      REQUIRE(plan.offsets[i] % 64 == 0);
      REQUIRE(plan.offsets[i] + buffers[i].bytes <= plan.bytes);
    }
  }
}

TEST_CASE("arena: runs lie side by side where that takes few bytes more", "[plan][arena]") {
  std::mt19937_64 random(test::testSeed());
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers = randomLifetimes(random, 12 + random() % 40, /*times=*/80);
    std::vector<size_t> shuffled(buffers.size());
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    std::vector<lower::BufferRun> runs = {{shuffled.begin(), shuffled.begin() + 3}, {shuffled.begin() + 3, shuffled.begin() + 8}};
    lower::ArenaPlan plan = lower::packArena(buffers, runs, /*slack=*/UINT32_MAX);
    REQUIRE_FALSE(anyOverlap(buffers, plan.offsets));
    for (const lower::BufferRun &run : runs) {
      for (size_t i = 1; i < run.size(); ++i) {
        REQUIRE(plan.offsets[run[i]] == plan.offsets[run[i - 1]] + lower::alignedBytes(buffers[run[i - 1]].bytes));
      }
    }
    uint64_t slack = random() % 5000, least = lower::packArena(buffers).bytes;
    REQUIRE(lower::packArena(buffers, runs, slack).bytes <= least + slack);
  }
  // While the first is alive, the third takes the place of the second: side by side, and in this order, they take 64 bytes more.
  std::vector<Lifetime> buffers = {{0, 9, 64}, {0, 4, 64}, {5, 9, 64}};
  CHECK(lower::packArena(buffers, {{2, 0}}, /*slack=*/63).bytes == 128);
  lower::ArenaPlan plan = lower::packArena(buffers, {{2, 0}}, /*slack=*/64);
  CHECK(plan.bytes == 192);
  CHECK(plan.offsets[0] == plan.offsets[2] + 64);
}

TEST_CASE("arena: the lower bound is the largest live set", "[plan][arena]") {
  std::mt19937_64 random(test::testSeed());
  for (int round = 0; round < 100; ++round) {
    std::vector<Lifetime> buffers = randomLifetimes(random, 40, /*times=*/50);
    uint64_t largest = 0;
    for (int64_t time = 0; time < 50; ++time) {
      largest = std::max(largest, liveAt(buffers, time));
    }
    REQUIRE(lower::largestLiveSet(buffers) == largest);
    REQUIRE(lower::packArena(buffers).bytes >= largest);
  }
}

TEST_CASE("arena: the check finds overlaps exactly when there are some", "[plan][arena]") {
  std::mt19937_64 random(test::testSeed());
  int bad = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Lifetime> buffers = randomLifetimes(random, 2 + random() % 8, /*times=*/20);
    std::vector<uint64_t> offsets;
    for (size_t i = 0; i < buffers.size(); ++i) {
      offsets.push_back(random() % 200 * 64);
    }
    auto found = lower::findOverlap(buffers, offsets);
    REQUIRE(found.has_value() == anyOverlap(buffers, offsets));
    if (found) {
      ++bad;
      REQUIRE(overlap(buffers[found->first], offsets[found->first], buffers[found->second], offsets[found->second]));
    }
  }
  REQUIRE(bad > 100); // or the test shows nothing
  REQUIRE(bad < 1900);
}

TEST_CASE("arena: training steps are planned within 2 % of the lower bound", "[plan][arena]") {
  std::mt19937_64 random(test::testSeed());
  for (int64_t layers : {1, 3, 12, 100, 500}) {
    std::vector<Lifetime> buffers = trainingLifetimes(random, layers);
    lower::ArenaPlan plan = lower::packArena(buffers);
    REQUIRE_FALSE(lower::findOverlap(buffers, plan.offsets));
    REQUIRE(static_cast<double>(plan.bytes) <= 1.02 * static_cast<double>(lower::largestLiveSet(buffers)));
  }
}

TEST_CASE("arena: nothing to place", "[plan][arena]") {
  REQUIRE(lower::packArena({}).bytes == 0);
  REQUIRE(lower::packArena({{0, 5, 0}}).bytes == 0);
  REQUIRE(lower::largestLiveSet({}) == 0);
}

} // namespace ashlar::test::arena_test
