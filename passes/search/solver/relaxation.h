// SPDX-License-Identifier: Apache-2.0
//
// The linear relaxation of a decision graph, by message passing: costs are moved between nodes and edges, which changes no sum, until the
// least costs of nodes and edges are as high as possible. Their sum is a bound. (The dual of the local polytope, by block-coordinate ascent
// over edges; MPLP++, Tourani et al. 2018.)

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_RELAXATION_H
#define ASHLAR_PASSES_SEARCH_SOLVER_RELAXATION_H

#include "passes/search/solver/decision_graph.h"
#include "passes/search/solver/effort.h"

namespace ashlar::search {

class Relaxation {
public:
  // Starts from the costs of the graph, which it keeps a reference to: they stay as they are while it lives.
  explicit Relaxation(const DecisionGraph &graph);

  // Adds to the cost of a choice of a node, for a changed multiplier.
  void addCost(unsigned node, unsigned choice, Cost cost) { unary[node][choice] = addCosts(unary[node][choice], cost); }

  // Moves costs, edge by edge, `passes` times over the graph in turns of both directions; ends early when the bound stays or the effort,
  // which it counts, is over.
  void run(int passes, Effort &effort);

  // Returns the cost that no choices are below.
  Cost bound() const;

  // Returns, by node and choice, by how much more the bound is when the node takes the choice.
  std::vector<std::vector<Cost>> margins() const;

  // The excess of choices on each node and each edge over the least there: together, their distance from the bound.
  struct Excess {
    std::vector<Cost> ofNodes, ofEdges;
  };
  Excess excessOf(const Choices &choices) const;

  // Returns choices: node by node the best one given the choices made already.
  Choices round() const;

private:
  // The costs moved to the rows and the columns of an edge's table, and off it: the table itself stays as it is.
  struct Moved {
    std::vector<Cost> ofRows, ofColumns;
  };

  // Moves the costs of an edge and its nodes to the nodes, as evenly as its turn allows.
  void visit(unsigned edge);

  // Returns the least that is left on an edge for each choice of one of its nodes.
  std::vector<Cost> leastOf(unsigned edge, unsigned node) const;

  // Returns the remaining cost of an edge of a node for its choice and the choice of the node at the other end.
  Cost left(unsigned edge, unsigned node, unsigned choice, unsigned other) const;

  const DecisionGraph &graph;
  std::vector<std::vector<Cost>> unary; // by node
  std::vector<Moved> moved;             // by edge
  std::vector<Cost> least;              // of the edge that is visited
};

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_RELAXATION_H
