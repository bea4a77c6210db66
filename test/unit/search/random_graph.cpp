// SPDX-License-Identifier: Apache-2.0
//
// See random_graph.h.

#include "test/unit/search/random_graph.h"

namespace ashlar::test {

using namespace search;
using Cost = search::Cost; // not that of dialects/support

DecisionGraph randomGraph(Dice &dice, unsigned nodes, bool hasRows) {
  DecisionGraph graph;
  for (unsigned node = 0; node < nodes; ++node) {
    std::vector<Cost> costs(1 + dice.roll(4));
    for (Cost &cost : costs) {
      cost = dice.roll(100);
    }
    graph.addNode(costs);
  }
  for (unsigned a = 0; a < nodes; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      if (dice.roll(3) == 0) {
        std::vector<Cost> costs(graph.numChoices(a) * graph.numChoices(b));
        for (Cost &cost : costs) {
          cost = dice.roll(20) == 0 ? kForbidden : dice.roll(60);
        }
        graph.addEdge(a, b, costs);
      }
    }
  }
  for (int row = 0; hasRows && row < 2; ++row) {
    Row made;
    made.fixed = dice.roll(10);
    for (unsigned node = 0; node < nodes; ++node) {
      made.terms.push_back({node, {}});
      for (unsigned choice = 0; choice < graph.numChoices(node); ++choice) {
        made.terms.back().amounts.push_back(dice.roll(50));
      }
    }
    graph.rows.push_back(made);
  }
  return graph;
}

} // namespace ashlar::test
