// SPDX-License-Identifier: Apache-2.0
//
// The best choices of small random graphs, against all choices there are.

#include "passes/search/solver/integer_program.h"
#include "passes/search/solver/relaxation.h"
#include "passes/search/solver/solve.h"
#include "test/unit/search/random_graph.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <limits>
#include <numeric>
#include <set>

namespace ashlar::test::solve_test {
namespace {

using namespace search;
using Cost = search::Cost; // not that of dialects/support

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

// Returns the least cost of all choices that keep a limit, and the least that any take of their largest row.
std::pair<Cost, int64_t> tryAll(const DecisionGraph &graph, int64_t limit) {
  Choices choices(graph.numNodes(), 0);
  Cost best = kForbidden;
  int64_t least = kAny;
  while (true) {
    const Cost cost = graph.cost(choices);
    if (cost < kForbidden) {
      least = std::min(least, graph.largestAmount(choices));
      best = graph.largestAmount(choices) <= limit ? std::min(best, cost) : best;
    }
    unsigned node = 0;
    while (node < choices.size() && ++choices[node] == graph.numChoices(node)) {
      choices[node++] = 0;
    }
    if (node == choices.size()) {
      return {best, least};
    }
  }
}

constexpr unsigned kSide = 24; // of a grid

// Returns a grid too wide to be eliminated exactly, at random costs, for which the relaxation is far from the best.
DecisionGraph grid(uint64_t seed) {
  constexpr unsigned kChoices = 4;
  Dice dice(seed);
  DecisionGraph graph;
  auto random = [&](size_t count) {
    std::vector<Cost> costs(count);
    for (Cost &cost : costs) {
      cost = dice.roll(1000);
    }
    return costs;
  };
  for (unsigned node = 0; node < kSide * kSide; ++node) {
    graph.addNode(random(kChoices));
    if (node % kSide > 0) {
      graph.addEdge(node - 1, node, random(kChoices * kChoices));
    }
    if (node >= kSide) {
      graph.addEdge(node - kSide, node, random(kChoices * kChoices));
    }
  }
  return graph;
}

// Returns a graph in which all pairs of the nodes are joined, at random costs, so that nothing folds.
DecisionGraph completeGraph(unsigned size) {
  Dice dice(1);
  DecisionGraph graph;
  for (unsigned node = 0; node < size; ++node) {
    graph.addNode(std::vector<Cost>(size, 0));
    for (unsigned other = 0; other < node; ++other) {
      std::vector<Cost> costs(size * size);
      for (Cost &cost : costs) {
        cost = dice.roll(1000);
      }
      graph.addEdge(node, other, costs);
    }
  }
  return graph;
}

} // namespace

TEST_CASE("search: elimination finds the best of all choices", "[search]") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    DecisionGraph graph = randomGraph(dice, 1 + dice.roll(8), /*hasRows=*/false);
    const Cost best = tryAll(graph, kAny).first;
    Effort effort;
    Solution found = eliminate(graph, effort);
    CHECK(found.cost == best);
    CHECK(found.bound == best);
    CHECK(graph.cost(found.choices) == best);
    CHECK(effort.getCounted() > 0);
    // In tables that are too small for it, and without effort, it is a bound and choices.
    Solution narrow = eliminate(graph, effort, /*mostEntries=*/4);
    CHECK(narrow.bound <= best);
    CHECK(narrow.cost >= best);
    Effort none(/*units=*/0);
    narrow = eliminate(graph, none);
    CHECK(narrow.bound <= best);
    CHECK(narrow.cost >= best);
  }
}

TEST_CASE("search: the relaxation is below all choices, with what a choice adds to it", "[search]") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    DecisionGraph graph = randomGraph(dice, 2 + dice.roll(5), /*hasRows=*/false);
    Relaxation relaxation(graph);
    Effort effort;
    relaxation.run(seed % 2 == 0 ? 50 : 0, effort); // as it starts, too
    CHECK(relaxation.bound() <= tryAll(graph, kAny).first);
    for (int sample = 0; sample < 20; ++sample) { // what choices cost is the bound and what they cost beyond the least anywhere
      Choices choices;
      for (unsigned node = 0; node < graph.numNodes(); ++node) {
        choices.push_back(dice.roll(graph.numChoices(node)));
      }
      const Relaxation::Excess excess = relaxation.excessOf(choices);
      Cost total = std::accumulate(excess.ofNodes.begin(), excess.ofNodes.end(), relaxation.bound());
      total = std::accumulate(excess.ofEdges.begin(), excess.ofEdges.end(), total, addCosts);
      CHECK((graph.cost(choices) >= kForbidden || total == graph.cost(choices)));
    }
    const std::vector<std::vector<Cost>> margins = relaxation.margins();
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      for (unsigned choice = 0; choice < graph.numChoices(node); ++choice) {
        std::vector<std::vector<unsigned>> kept(graph.numNodes());
        for (unsigned other = 0; other < graph.numNodes(); ++other) {
          for (unsigned each = 0; each < graph.numChoices(other); ++each) {
            if (other != node || each == choice) {
              kept[other].push_back(each);
            }
          }
        }
        const Cost with = tryAll(graph.restrict(kept), kAny).first;
        CHECK(addCosts(relaxation.bound(), margins[node][choice]) <= with);
      }
    }
  }
}

TEST_CASE("search: within a limit the integer program finds the best, multipliers a bound and what keeps it", "[search]") {
  int tight = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    DecisionGraph graph = randomGraph(dice, 2 + dice.roll(6), /*hasRows=*/true);
    const int64_t limit = 40 + dice.roll(120);
    auto [best, least] = tryAll(graph, limit);
    Request request;
    request.limit = limit;
    Effort effort;
    Found penalized = solve(graph, request, effort);
    request.usesIntegerProgram = true;
    Found exact = solve(graph, request, effort);
    if (best >= kForbidden) {
      ++refused;
      CHECK(!exact.fits);
      CHECK(!penalized.fits);
      continue;
    }
    tight += tryAll(graph, kAny).first < best;
    std::optional<Solution> alone = solveIntegerProgram(graph, effort, limit);
    REQUIRE(alone);
    CHECK(alone->cost == best);
    CHECK(alone->bound <= best);
    if (exact.fits) { // multipliers find something that keeps the limit on almost all graphs
      CHECK(exact.cost == best);
      CHECK(graph.largestAmount(exact.choices) <= limit);
    }
    if (penalized.fits) {
      CHECK(penalized.cost >= best);
      CHECK(penalized.bound <= best);
      CHECK(graph.largestAmount(penalized.choices) <= limit);
    }
  }
  CHECK(tight > 20); // the limit decided
  CHECK(refused > 5);
}

// The relaxation of the larger graph takes minutes, and of the smaller one the search behind it.
TEST_CASE("search: the integer program ends when its work is done, or by the clock", "[search]") {
  for (unsigned size : {24, 12}) {
    INFO("size " << size);
    const DecisionGraph graph = completeGraph(size);
    std::optional<Solution> first;
    for (bool again : {false, true}) {
      Effort effort(/*units=*/100000000);
      const std::optional<Solution> found = solveIntegerProgram(graph, effort);
      CHECK_FALSE(effort.isStopped());
      CHECK((!found || found->bound < found->cost)); // not done
      CHECK((!again || found.has_value() == first.has_value()));
      CHECK((!again || !found || (found->choices == first->choices && found->bound == first->bound)));
      first = found;
    }
    const auto start = std::chrono::steady_clock::now();
    Effort net(INT64_MAX, /*seconds=*/1);
    const std::optional<Solution> found = solveIntegerProgram(graph, net);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20)); // it is looked at between iterations, and others may run
    CHECK(net.isOver());
    CHECK(net.isStopped());
    CHECK((!found || found->bound < found->cost));
  }
}

TEST_CASE("effort: work ends a search, and the clock only where there is work left", "[search]") {
  Effort counted(1000);
  counted.count(999);
  CHECK_FALSE(counted.isOver());
  CHECK(counted.left() == 1);
  counted.count(5);
  CHECK(counted.isOver());
  CHECK_FALSE(counted.isStopped());
  CHECK(counted.left() == 0);
  CHECK(counted.getCounted() == 1004);
  Effort late(1000, /*seconds=*/0);
  CHECK_FALSE(late.isStopped()); // nothing was ended yet
  CHECK(late.isOver());
  CHECK(late.isStopped());
  Effort done(1000, /*seconds=*/0);
  done.count(1000);
  CHECK(done.isOver());
  CHECK_FALSE(done.isStopped());
  CHECK(Effort::unitsOf(0.5) == Effort::kUnits / 2);
}

// The choices and the bound are a function of the units, more of which never make them worse, and the work ends soon after its bound.
TEST_CASE("search: with less effort the result is a bound and choices, and always the same", "[search]") {
  const DecisionGraph graph = grid(/*seed=*/1);
  Effort most;
  Cost least = solve(graph, {}, most).cost;
  REQUIRE_FALSE(most.isOver());
  std::set<Cost> costs;
  for (int64_t part : {1000000, 1000, 100, 10, 3}) {
    INFO("part " << part);
    Effort effort(most.getCounted() / part), same(most.getCounted() / part);
    const Found found = solve(graph, {}, effort), again = solve(graph, {}, same);
    CHECK(found.choices == again.choices);
    CHECK(found.bound == again.bound);
    CHECK(effort.getCounted() == same.getCounted());
    CHECK(effort.isOver());
    CHECK(found.bound <= least);
    CHECK(graph.cost(found.choices) == found.cost);
    CHECK(found.cost >= least);
    costs.insert(found.cost);
  }
  CHECK(costs.size() > 1); // the effort decided
}

TEST_CASE("search: where the best is not found, no few nodes at a time are better", "[search]") {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    INFO("seed " << seed);
    const DecisionGraph graph = grid(seed);
    Effort effort;
    const Found found = solve(graph, {}, effort);
    REQUIRE(found.bound < found.cost);
    unsigned better = 0;
    for (unsigned first = 0; first + kSide + 1 < graph.numNodes(); ++first) {
      if (first % kSide + 1 == kSide) {
        continue;
      }
      for (unsigned four = 0; four < 256; ++four) { // the choices of 2 x 2 nodes
        Choices choices = found.choices;
        choices[first] = four & 3;
        choices[first + 1] = four >> 2 & 3;
        choices[first + kSide] = four >> 4 & 3;
        choices[first + kSide + 1] = four >> 6;
        better += graph.cost(choices) < found.cost;
      }
    }
    CHECK(better == 0);
  }
}

TEST_CASE("search: one choice that nothing may stand beside is no way out", "[search]") {
  DecisionGraph graph;
  graph.addNode({0, 5});
  graph.addNode({0});
  graph.addEdge(0, 1, {kForbidden, 1});
  Effort effort;
  Found found = solve(graph, {}, effort);
  CHECK(found.choices == Choices{1, 0});
  CHECK(found.cost == 6);
  CHECK(found.bound == 6);
}

} // namespace ashlar::test::solve_test
