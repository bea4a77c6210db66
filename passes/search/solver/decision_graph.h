// SPDX-License-Identifier: Apache-2.0
//
// A search problem in numbers: nodes that each take one of their choices, what a choice costs, what two choices cost together, and what
// choices take of something that is limited. Nothing here knows of layouts (layout_graph.h makes one of them).

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_DECISION_GRAPH_H
#define ASHLAR_PASSES_SEARCH_SOLVER_DECISION_GRAPH_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::search {

// Picoseconds. What may not be costs kForbidden; sums stop there.
using Cost = int64_t;
constexpr Cost kForbidden = INT64_C(1) << 60;

inline Cost addCosts(Cost a, Cost b) {
  return std::min(kForbidden, a + b);
}

// What the choices of two nodes cost together: rows are choices of `a`, columns those of `b`.
struct Edge {
  unsigned a, b;
  std::vector<Cost> costs; // row-major
};

// What choices take of one limited thing, the memory of a device at one time: for each node that takes some, how much each of its choices
// takes.
struct Row {
  struct Term {
    unsigned node;
    std::vector<int64_t> amounts; // one a choice
  };
  std::vector<Term> terms;
  int64_t fixed = 0; // taken whatever is chosen
};

// One choice a node.
using Choices = std::vector<unsigned>;

class DecisionGraph {
public:
  // Adds a node with what each of its choices costs; at least one. Returns its number.
  unsigned addNode(std::vector<Cost> costs);

  // Adds to what a choice of a node costs.
  void addCost(unsigned node, unsigned choice, Cost cost) {
    Cost &total = nodes[node][choice];
    total = addCosts(total, cost);
  }

  // Adds what two nodes cost together, `costs` row-major with a's choices as rows: to what they cost together already, or, of a node with
  // itself, to what its choices cost.
  void addEdge(unsigned a, unsigned b, const std::vector<Cost> &costs);

  size_t numNodes() const { return nodes.size(); }
  size_t numChoices(unsigned node) const { return nodes[node].size(); }
  const std::vector<Cost> &costs(unsigned node) const { return nodes[node]; }
  const std::vector<Edge> &getEdges() const { return edges; }
  const std::vector<unsigned> &edgesOf(unsigned node) const { return edgeNumbers[node]; }
  unsigned otherEnd(unsigned edge, unsigned node) const { return edges[edge].a == node ? edges[edge].b : edges[edge].a; }

  // Returns what an edge of a node costs with its choice and that of the node at the other end.
  Cost edgeCost(unsigned edge, unsigned node, unsigned choice, unsigned other) const {
    const size_t columns = numChoices(edges[edge].b);
    return edges[edge].costs[edges[edge].a == node ? choice * columns + other : other * columns + choice];
  }

  // Returns what all choices cost; kForbidden where something may not be.
  Cost cost(const Choices &choices) const;

  // Returns what choices take of a row.
  static int64_t amount(const Row &row, const Choices &choices);

  // Returns the most that choices take of any row; 0 without rows.
  int64_t largestAmount(const Choices &choices) const;

  // Changes one choice at a time while that costs less and keeps `limit` of every row; that of node `pinned` stays.
  void improve(Choices &choices, int64_t limit = INT64_MAX, size_t pinned = SIZE_MAX) const;

  // Returns the graph in which each node has only some of its choices, in their order.
  DecisionGraph restrict(const std::vector<std::vector<unsigned>> &kept) const;

  std::vector<Row> rows;

private:
  std::vector<std::vector<Cost>> nodes;
  std::vector<Edge> edges;
  std::vector<std::vector<unsigned>> edgeNumbers; // by node
};

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_DECISION_GRAPH_H
