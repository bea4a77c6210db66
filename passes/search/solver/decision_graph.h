// SPDX-License-Identifier: Apache-2.0
//
// A search problem in numbers: nodes that each take one of their choices, the cost of a choice, the joint cost of two choices, and the
// amounts of limited resources that choices take. Nothing here knows layouts (layout_graph.h makes one of them).

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_DECISION_GRAPH_H
#define ASHLAR_PASSES_SEARCH_SOLVER_DECISION_GRAPH_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::search {

// Picoseconds. A forbidden choice costs kForbidden; sums saturate there.
using Cost = int64_t;
constexpr Cost kForbidden = INT64_C(1) << 60;

inline Cost addCosts(Cost a, Cost b) {
  return std::min(kForbidden, a + b);
}

// The joint cost of the choices of two nodes: rows are choices of `a`, columns are choices of `b`.
struct Edge {
  unsigned a, b;
  std::vector<Cost> costs; // row-major
};

// The amounts of one limited resource, the memory of a device at one time: for each node that takes some, the amount of each of its
// choices.
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
  // Adds a node with the cost of each of its choices; at least one. Returns its number.
  unsigned addNode(std::vector<Cost> costs);

  // Adds to the cost of a choice of a node.
  void addCost(unsigned node, unsigned choice, Cost cost) {
    Cost &total = nodes[node][choice];
    total = addCosts(total, cost);
  }

  // Adds a joint cost of two nodes, `costs` row-major with a's choices as rows: to their joint cost so far, or, for a node with itself, to
  // the cost of its choices.
  void addEdge(unsigned a, unsigned b, const std::vector<Cost> &costs);

  size_t numNodes() const { return nodes.size(); }
  size_t numChoices(unsigned node) const { return nodes[node].size(); }
  const std::vector<Cost> &costs(unsigned node) const { return nodes[node]; }
  const std::vector<Edge> &getEdges() const { return edges; }
  const std::vector<unsigned> &edgesOf(unsigned node) const { return edgeNumbers[node]; }
  unsigned otherEnd(unsigned edge, unsigned node) const { return edges[edge].a == node ? edges[edge].b : edges[edge].a; }

  // Returns the cost of an edge of a node for its choice and the choice of the node at the other end.
  Cost edgeCost(unsigned edge, unsigned node, unsigned choice, unsigned other) const {
    const size_t columns = numChoices(edges[edge].b);
    return edges[edge].costs[edges[edge].a == node ? choice * columns + other : other * columns + choice];
  }

  // Returns the number of entries of the tables of all nodes and edges.
  int64_t countEntries() const;

  // Returns the total cost of choices; kForbidden if one of them is forbidden.
  Cost cost(const Choices &choices) const;

  // Returns the amount that choices take of a row.
  static int64_t amount(const Row &row, const Choices &choices);

  // Returns the most that choices take of any row; 0 without rows.
  int64_t largestAmount(const Choices &choices) const;

  // Changes one choice at a time while that reduces the cost and keeps `limit` of every row; the choice of node `pinned` stays.
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
