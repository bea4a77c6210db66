// SPDX-License-Identifier: Apache-2.0
//
// The best choices that differ from those that were taken, against all choices there are.

#include "passes/search/name_globs.h"
#include "passes/search/runner_up.h"
#include "test/unit/search/random_graph.h"

#include <catch2/catch.hpp>

#include <limits>

namespace ashlar::test::runner_up_test {
namespace {

using namespace search;
using Cost = search::Cost; // not that of dialects/support

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

// Visits all choices of a graph.
template <typename Visit> void visitAll(const DecisionGraph &graph, Visit visit) {
  Choices choices(graph.numNodes(), 0);
  while (true) {
    visit(choices);
    unsigned node = 0;
    while (node < choices.size() && ++choices[node] == graph.numChoices(node)) {
      choices[node++] = 0;
    }
    if (node == choices.size()) {
      return;
    }
  }
}

} // namespace

TEST_CASE("runner-up: the best choices in which one of some nodes is another, of all there are", "[search]") {
  int proven = 0, none = 0, limited = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    DecisionGraph graph = randomGraph(dice, 2 + dice.roll(6), /*hasRows=*/true);
    const bool isLimited = seed % 4 == 0;
    const int64_t limit = isLimited ? 60 + dice.roll(120) : kAny;
    Choices taken;
    Cost least = kForbidden;
    visitAll(graph, [&](const Choices &choices) {
      if (graph.cost(choices) < least && graph.largestAmount(choices) <= limit) {
        taken = choices;
        least = graph.cost(choices);
      }
    });
    if (taken.empty()) {
      continue;
    }
    // Two nodes, of which the choices with the parity of the taken one come to the same.
    std::vector<Taken> decisions;
    for (unsigned node = 0; node < 2; ++node) {
      decisions.push_back({node, {}});
      for (unsigned choice = 0; choice < graph.numChoices(node); ++choice) {
        decisions.back().isSame.push_back(choice % 2 == taken[node] % 2);
      }
    }
    auto differs = [&](const Choices &choices) { return !decisions[0].isSame[choices[0]] || !decisions[1].isSame[choices[1]]; };
    Cost best = kForbidden;
    visitAll(graph, [&](const Choices &choices) {
      best = differs(choices) && graph.largestAmount(choices) <= limit ? std::min(best, graph.cost(choices)) : best;
    });
    Effort effort;
    std::optional<RunnerUpSearch::Other> found = RunnerUpSearch(graph, taken, limit, effort).find(decisions);
    if (!found) {
      ++none;
      CHECK((best >= kForbidden || isLimited)); // within a limit it is not always found
      continue;
    }
    CHECK(differs(found->choices));
    CHECK(graph.cost(found->choices) == found->cost);
    CHECK(graph.largestAmount(found->choices) <= limit);
    CHECK(found->cost >= best);
    CHECK(found->bound <= best);
    if (!isLimited) { // small enough for elimination
      CHECK(found->cost == best);
      CHECK(found->bound == best);
    }
    proven += found->bound == found->cost;
    limited += isLimited;
  }
  CHECK(proven > 200);
  CHECK(none > 5);
  CHECK(limited > 20);
}

TEST_CASE("names: a block ends at the first numbers of a path", "[search]") {
  CHECK(blockOf("encoder.layer.3.attention.key") == "encoder.layer.3");
  CHECK(blockOf("layer1.0.conv2") == "layer1.0");
  CHECK(blockOf("/model/layers.12/attn/MatMul") == "/model/layers.12");
  CHECK(blockOf("embedding/Gather") == "embedding");
  CHECK(blockOf("fc1") == "fc1");
  CHECK(blockOf("head") == "head");
  CHECK(blockOf("") == "");
}

TEST_CASE("names: globs of names that differ in numbers, and of such globs", "[search]") {
  CHECK(joinNumbers({"layer1.0.conv1", "layer2.0.conv1"}) == "layer*.0.conv1");
  CHECK(joinNumbers({"layer9.fc", "layer10.fc"}) == "layer*.fc");
  CHECK(joinNumbers({"fc1"}) == "fc1");
  CHECK(joinGlobs("layer*.attention.key.weight", "layer*.fc.weight") == "layer*.*.weight");
  CHECK(joinGlobs("layer0.query", "layer0.key") == "layer0.*");
  CHECK(joinGlobs("fc1.weight", "head") == "");
}

} // namespace ashlar::test::runner_up_test
