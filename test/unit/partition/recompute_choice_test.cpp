// SPDX-License-Identifier: Apache-2.0
//
// What is kept and what is computed again: by hand, and for random graphs and costs the cheapest of all choices that there are.

#include "passes/partition/recompute_choice.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

namespace ashlar::test::recompute_choice_test {

using namespace ashlar::partition;

namespace {

// Returns what it takes to compute the nodes of `rematerialized` again where they are needed, as the header says it; nothing where one of
// them must not be.
std::optional<RecomputePoint> evaluate(const std::vector<RecomputeNode> &nodes, const std::vector<bool> &rematerialized) {
  std::vector<bool> isTaken(nodes.size()), isComputed(nodes.size());
  bool isDone = false;
  while (!isDone) { // a node may have an earlier one computed, which has others taken
    isDone = true;
    for (size_t i = nodes.size(); i-- > 0;) {
      const bool isFirst = !isComputed[i] && rematerialized[i] && (nodes[i].isNeeded || isTaken[i]);
      if (isFirst) {
        isComputed[i] = true;
        isDone = false;
      }
      if (isComputed[i] && (!nodes[i].mayRematerialize || !rematerialized[i])) {
        return std::nullopt;
      }
      for (unsigned operand : isComputed[i] ? nodes[i].operands : std::vector<unsigned>()) {
        isTaken[operand] = true;
      }
      for (unsigned other : isComputed[i] ? nodes[i].together : std::vector<unsigned>()) {
        isDone &= isComputed[other];
        isComputed[other] = true;
      }
    }
  }
  RecomputePoint point;
  point.isRecomputed = isComputed;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool isKept = !isComputed[i] && (nodes[i].isNeeded || isTaken[i]);
    point.keptBytes += isKept && !nodes[i].isKept ? nodes[i].bytes : 0;
    point.timePs += isComputed[i] ? nodes[i].timePs : 0;
  }
  return point;
}

// Returns all choices that there are.
std::vector<RecomputePoint> allChoices(const std::vector<RecomputeNode> &nodes) {
  std::vector<RecomputePoint> all;
  for (unsigned mask = 0; mask < 1u << nodes.size(); ++mask) {
    std::vector<bool> rematerialized(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      rematerialized[i] = mask >> i & 1;
    }
    if (auto point = evaluate(nodes, rematerialized)) {
      all.push_back(*point);
    }
  }
  return all;
}

double costOf(const RecomputePoint &point, double psPerByte) {
  return static_cast<double>(point.timePs) + psPerByte * static_cast<double>(point.keptBytes);
}

double leastCost(const std::vector<RecomputePoint> &points, double psPerByte) {
  double least = costOf(points.front(), psPerByte);
  for (const RecomputePoint &point : points) {
    least = std::min(least, costOf(point, psPerByte));
  }
  return least;
}

std::vector<std::pair<int64_t, int64_t>> bytesAndTimes(const std::vector<RecomputePoint> &points) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const RecomputePoint &point : points) {
    found.emplace_back(point.keptBytes, point.timePs);
  }
  return found;
}

RecomputeNode node(int64_t bytes, int64_t timePs, bool isNeeded, std::vector<unsigned> operands = {}) {
  return {bytes, timePs, isNeeded, /*isKept=*/false, /*mayRematerialize=*/true, std::move(operands), {}};
}

// Up to nine nodes. Numbers repeat, so that choices tie; some ops take no time, as views do, and some values no bytes.
std::vector<RecomputeNode> randomNodes(std::mt19937_64 &random) {
  auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  std::vector<RecomputeNode> nodes(static_cast<size_t>(1 + below(9)));
  const bool isLarge = below(3) == 0; // bytes and picoseconds of a real model
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].bytes = below(6) * (isLarge ? 123'456'789 : 1);
    nodes[i].timePs = below(6) * (isLarge ? 987'654'321 : 1);
    nodes[i].isNeeded = below(2) == 0;
    nodes[i].isKept = below(5) == 0;
    nodes[i].mayRematerialize = below(5) != 0;
    for (size_t operand = 0; operand < i; ++operand) {
      if (below(3) == 0) {
        nodes[i].operands.push_back(static_cast<unsigned>(operand));
      }
    }
    if (!nodes[i].operands.empty() && nodes[nodes[i].operands.back()].together.empty() && below(3) == 0) {
      nodes[i].together = {nodes[i].operands.back()};
      nodes[nodes[i].operands.back()].together = {static_cast<unsigned>(i)};
    }
  }
  return nodes;
}

} // namespace

TEST_CASE("recompute choice: the example of the header", "[partition]") {
  auto points = recomputeChoices({node(8, 10, true), node(8, 1, true, {0})});
  CHECK(bytesAndTimes(points) == std::vector<std::pair<int64_t, int64_t>>{{16, 0}, {8, 1}, {0, 11}});
  CHECK(points[0].isRecomputed == std::vector<bool>{false, false});
  CHECK(points[1].isRecomputed == std::vector<bool>{false, true});
  CHECK(points[2].isRecomputed == std::vector<bool>{true, true});
}

TEST_CASE("recompute choice: what is there anyway costs nothing, what must not be rematerialized is kept", "[partition]") {
  // x is the module's output: y is computed again from it for 1 ps, and x itself never.
  std::vector<RecomputeNode> nodes = {node(8, 10, true), node(8, 1, true, {0})};
  nodes[0].isKept = true;
  CHECK(bytesAndTimes(recomputeChoices(nodes)) == std::vector<std::pair<int64_t, int64_t>>{{8, 0}, {0, 1}});
  // x is a collective that stays: its 8 bytes are the least, though the backward pass takes y alone.
  nodes = {node(8, 10, false), node(16, 1, true, {0})};
  nodes[0].mayRematerialize = false;
  CHECK(bytesAndTimes(recomputeChoices(nodes)) == std::vector<std::pair<int64_t, int64_t>>{{16, 0}, {8, 1}});
}

TEST_CASE("recompute choice: keeping an operand of 4 bytes is worth more than a value of 16, which nobody needs", "[partition]") {
  // A cast to bf16 (8), a product (16) and its gelu (16), of which the backward pass takes the last two: between keeping 32 and nothing,
  // keeping the product alone.
  auto points = recomputeChoices({node(8, 1, false), node(16, 100, true, {0}), node(16, 5, true, {1})});
  CHECK(bytesAndTimes(points) == std::vector<std::pair<int64_t, int64_t>>{{32, 0}, {16, 5}, {0, 106}});
}

TEST_CASE("recompute choice: what one call computes is rematerialized together", "[partition]") {
  // A number a row and a result, of which one call computes both: keeping the row alone would leave half of the call.
  std::vector<RecomputeNode> nodes = {node(1, 10, true), node(8, 10, true, {0})};
  CHECK(bytesAndTimes(recomputeChoices(nodes)) == std::vector<std::pair<int64_t, int64_t>>{{9, 0}, {1, 10}, {0, 20}});
  nodes[0].together = {1};
  nodes[1].together = {0};
  CHECK(bytesAndTimes(recomputeChoices(nodes)) == std::vector<std::pair<int64_t, int64_t>>{{9, 0}, {0, 20}});
}

TEST_CASE("recompute choice: nothing that the backward pass takes", "[partition]") {
  CHECK(bytesAndTimes(recomputeChoices({})) == std::vector<std::pair<int64_t, int64_t>>{{0, 0}});
  CHECK(bytesAndTimes(recomputeChoices({node(8, 10, false)})) == std::vector<std::pair<int64_t, int64_t>>{{0, 0}});
}

TEST_CASE("recompute choice: the cheapest of all choices for any cost of a byte", "[partition]") {
  std::mt19937_64 random(20261);
  size_t points = 0, between = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<RecomputeNode> nodes = randomNodes(random);
    std::vector<RecomputePoint> found = recomputeChoices(nodes), all = allChoices(nodes);
    INFO("round " << round);
    REQUIRE_FALSE(found.empty());
    for (const RecomputePoint &point : found) {
      std::optional<RecomputePoint> same = evaluate(nodes, point.isRecomputed); // it is the choice that it says it is
      REQUIRE(same);
      REQUIRE(same->isRecomputed == point.isRecomputed);
      REQUIRE(*same == point);
    }
    for (size_t i = 1; i < found.size(); ++i) {
      REQUIRE(found[i - 1].keptBytes > found[i].keptBytes);
      REQUIRE(found[i - 1].timePs < found[i].timePs);
    }
    auto byTime = [](const RecomputePoint &a, const RecomputePoint &b) {
      return std::pair(a.timePs, a.keptBytes) < std::pair(b.timePs, b.keptBytes);
    };
    auto byBytes = [](const RecomputePoint &a, const RecomputePoint &b) {
      return std::pair(a.keptBytes, a.timePs) < std::pair(b.keptBytes, b.timePs);
    };
    REQUIRE(found.front() == *std::min_element(all.begin(), all.end(), byTime));
    REQUIRE(found.back() == *std::min_element(all.begin(), all.end(), byBytes));
    std::vector<double> costs; // random ones, and those at which the best choice changes
    for (int i = 0; i < 20; ++i) {
      costs.push_back(std::ldexp(1 + static_cast<double>(random() % 1024) / 1024, static_cast<int>(random() % 16) - 8));
    }
    for (const RecomputePoint &a : all) {
      const RecomputePoint &b = all[random() % all.size()];
      if (a.keptBytes > b.keptBytes && a.timePs < b.timePs) {
        costs.push_back(static_cast<double>(b.timePs - a.timePs) / static_cast<double>(a.keptBytes - b.keptBytes));
      }
    }
    for (double cost : costs) {
      REQUIRE(leastCost(found, cost) <= leastCost(all, cost) * (1 + 1e-9));
    }
    points += found.size();
    between += found.size() > 2;
  }
  CHECK(points > 6000); // the graphs are no trivial ones
  CHECK(between > 900);
}

} // namespace ashlar::test::recompute_choice_test
