// SPDX-License-Identifier: Apache-2.0
//
// The least number of moves with which a program fits: against trying all of them.

#include "compiler/planning/recompute_search.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <vector>

namespace ashlar::test::recompute_search_test {

using namespace ashlar::planning;

namespace {

// Programs by their moves, the first one with none.
struct Trials {
  std::vector<uint64_t> bytes;
  std::vector<int64_t> tried;

  // Returns what findLeastMoves finds; -1 when it fails. The trial of `failing` fails.
  int64_t find(uint64_t limit, int64_t failing = -1, const MovesGuess &guess = nullptr, size_t mostTried = SIZE_MAX) {
    mlir::FailureOr<int64_t> found = findLeastMoves(
        limit,
        [&](int64_t moves) -> mlir::FailureOr<RecomputeTrial> {
          tried.push_back(moves);
          if (moves == failing) {
            return mlir::failure();
          }
          return RecomputeTrial{bytes.at(static_cast<size_t>(moves)), static_cast<int64_t>(bytes.size()) - 1};
        },
        guess, [&] { return tried.size() >= mostTried; });
    return succeeded(found) ? *found : -1;
  }
};

} // namespace

TEST_CASE("recompute search: the least moves with which a program fits", "[driver]") {
  CHECK(Trials{{100, 90, 80, 70, 60}}.find(100) == 0); // to the byte
  CHECK(Trials{{100, 90, 80, 70, 60}}.find(99) == 1);
  CHECK(Trials{{100, 90, 80, 70, 60}}.find(90) == 1);
  CHECK(Trials{{100, 90, 80, 70, 60}}.find(70) == 3);
  CHECK(Trials{{100, 90, 80, 70, 60}}.find(60) == 4);
}

TEST_CASE("recompute search: an effort that is over ends it with the least moves that are known to be enough", "[driver]") {
  std::vector<uint64_t> bytes;
  for (uint64_t moves = 0; moves <= 64; ++moves) {
    bytes.push_back(1000 - moves);
  }
  const MovesGuess guess = [](uint64_t) { return 0.5; };
  CHECK(Trials{bytes}.find(980, -1, guess) == 20);
  CHECK(Trials{bytes}.find(980, -1, guess, /*mostTried=*/2) == 32);
  CHECK(Trials{bytes}.find(980, -1, guess, /*mostTried=*/3) == 31);
  CHECK(Trials{bytes}.find(960, -1, guess, /*mostTried=*/1) == 47); // the first one that fits, of 32, 33, 35, 39
}

TEST_CASE("recompute search: where nothing fits, the moves with which a program takes least", "[driver]") {
  CHECK(Trials{{100, 90, 80, 70, 60}}.find(59) == 4);
  CHECK(Trials{{100, 90, 60, 70, 75}}.find(59) == 2);
  CHECK(Trials{{100, 110}}.find(59) == 0);
  CHECK(Trials{{100}}.find(59) == 0);
}

TEST_CASE("recompute search: fewer moves than all of them can be the only ones that fit", "[driver]") {
  CHECK(Trials{{100, 60, 70, 80, 90}}.find(60) == 1);
  std::vector<uint64_t> valley(1001, 100);
  for (size_t moves = 180; moves < 260; ++moves) {
    valley[moves] = 50;
  }
  Trials trials{valley};
  const int64_t found = trials.find(60);
  CHECK(found == 187); // three sixteenths
  CHECK(trials.tried.size() <= 16);
}

TEST_CASE("recompute search: about log2 of the moves are tried, and what does not fit is returned only with all of them tried",
          "[driver]") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    Trials trials;
    const bool isSteady = round % 2 == 0;
    uint64_t bytes = 1'000'000;
    for (uint64_t moves = 1 + random() % 1000; moves > 0; --moves) {
      trials.bytes.push_back(bytes);
      bytes -= random() % 900;
      bytes += !isSteady && random() % 8 == 0 ? random() % 2000 : 0; // a copy can be in the way where the program takes most
    }
    const int64_t all = static_cast<int64_t>(trials.bytes.size()) - 1;
    const uint64_t limit = trials.bytes[random() % trials.bytes.size()] - random() % 2;
    // With a guess, however wrong, it finds the same where more moves take less.
    const double share = static_cast<double>(random() % 100) / 80;
    const bool isGuessed = round % 4 == 0;
    const int64_t found = isGuessed ? trials.find(limit, -1,
                                                  [&](uint64_t bytes) {
                                                    CHECK(bytes == trials.bytes.front());
                                                    return share;
                                                  })
                                    : trials.find(limit);
    INFO("round " << round);
    const bool fits = trials.bytes[static_cast<size_t>(found)] <= limit;
    REQUIRE(trials.tried.size() <= (fits ? 12 : 28) + (isGuessed ? 2 : 0));
    REQUIRE((fits || std::find(trials.tried.begin(), trials.tried.end(), all) != trials.tried.end()));
    REQUIRE((fits || !isSteady || limit < trials.bytes.back()));
    if (isSteady && fits && found > 0) { // a 64th of the moves less is not enough
      const int64_t parts = std::min(all, kRecomputeParts), part = found * parts / all;
      REQUIRE(found == (part * all + parts - 1) / parts);
      REQUIRE(trials.bytes[static_cast<size_t>(((part - 1) * all + parts - 1) / parts)] > limit);
    }
  }
}

TEST_CASE("recompute search: a good guess saves trials", "[driver]") {
  std::vector<uint64_t> line;
  for (uint64_t moves = 0; moves <= 6400; ++moves) {
    line.push_back(10'000 - moves);
  }
  Trials trials{line};
  CHECK(trials.find(7000, -1, [](uint64_t bytes) { return static_cast<double>(bytes - 7000) / 6400; }) == 3000);
  CHECK(trials.tried == std::vector<int64_t>{0, 3000, 2900});
  trials.tried.clear();
  CHECK(trials.find(7000, -1, [](uint64_t) { return 0.4; }) == 3000); // 26 parts; 27, 29, 33; 31, 30
  CHECK(trials.tried == std::vector<int64_t>{0, 2600, 2700, 2900, 3300, 3100, 3000});
}

TEST_CASE("recompute search: a trial that fails ends it", "[driver]") {
  CHECK(Trials{{100, 90, 80, 70, 60}}.find(80, 0) == -1);
  CHECK(Trials{{100, 90, 80, 70, 60}}.find(80, 2) == -1);
}

} // namespace ashlar::test::recompute_search_test
