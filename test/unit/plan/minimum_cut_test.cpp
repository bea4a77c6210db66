// SPDX-License-Identifier: Apache-2.0
//
// Minimum cuts against all cuts of small graphs.

#include "passes/analysis/minimum_cut.h"

#include <algorithm>
#include <random>

#include <catch2/catch.hpp>

namespace ashlar::test::minimum_cut_test {

using ashlar::analysis::MinimumCut;

namespace {

struct Edge {
  unsigned from, to;
  int64_t cost;
};

// Returns the cost of the edges from nodes ahead of a cut to nodes behind it.
int64_t costOf(const std::vector<Edge> &edges, const std::vector<bool> &isBehind) {
  int64_t cost = 0;
  for (const Edge &edge : edges) {
    cost += !isBehind[edge.from] && isBehind[edge.to] ? edge.cost : 0;
  }
  return cost;
}

} // namespace

TEST_CASE("minimum cut: no cut costs less, and none that costs as much is nearer to its end", "[plan][minimum_cut]") {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const unsigned nodes = 2 + random() % 8;
    MinimumCut graph, other;
    for (unsigned node = 0; node < nodes; ++node) {
      graph.addNode();
      other.addNode();
    }
    std::vector<Edge> edges;
    for (unsigned i = 0; i < 3 * nodes; ++i) {
      const Edge edge = {static_cast<unsigned>(random() % nodes), static_cast<unsigned>(random() % nodes),
                         static_cast<int64_t>(random() % 5)};
      if (edge.from != edge.to) {
        edges.push_back(edge);
        graph.addEdge(edge.from, edge.to, static_cast<double>(edge.cost));
        other.addEdge(edge.from, edge.to, static_cast<double>(edge.cost));
      }
    }
    const std::vector<bool> found = graph.behind(0, 1);
    std::vector<bool> first = other.ahead(0, 1); // as nodes behind the cut
    first.flip();
    REQUIRE((!found[0] && found[1] && !first[0] && first[1]));
    const auto countBehind = [&](const std::vector<bool> &isBehind) { return std::count(isBehind.begin(), isBehind.end(), true); };
    for (unsigned cut = 0; cut < 1u << nodes; ++cut) {
      std::vector<bool> isBehind(nodes);
      for (unsigned node = 0; node < nodes; ++node) {
        isBehind[node] = (cut >> node & 1) != 0;
      }
      if (isBehind[0] || !isBehind[1]) {
        continue;
      }
      const int64_t least = costOf(edges, found), cost = costOf(edges, isBehind);
      CHECK(least <= cost);
      CHECK((least < cost || countBehind(found) <= countBehind(isBehind)));
      CHECK(costOf(edges, first) == least);
      CHECK((least < cost || countBehind(first) >= countBehind(isBehind)));
    }
  }
}

TEST_CASE("minimum cut: edges that no cut has", "[plan][minimum_cut]") {
  MinimumCut graph; // source -> 2 -> 3 -> sink, and 2 -> 4 -> sink: cutting before 2 costs 5, behind it 3 + 1
  for (int node = 0; node < 5; ++node) {
    graph.addNode();
  }
  graph.addEdge(0, 2, 5);
  graph.addEdge(2, 3, 3);
  graph.addEdge(3, 1, MinimumCut::kNever);
  graph.addEdge(2, 4, MinimumCut::kNever);
  graph.addEdge(4, 1, 1);
  CHECK(graph.behind(0, 1) == std::vector<bool>{false, true, false, true, false});
}

} // namespace ashlar::test::minimum_cut_test
