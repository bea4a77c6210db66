// SPDX-License-Identifier: Apache-2.0
//
// Dynamic programming over a decision graph: nodes are eliminated one after the other, each into one table of its least cost for every
// choice of its neighbours. A chain, a tree and a series-parallel graph (forward and backward of a chain of layers) need tables of two
// nodes only; a graph of treewidth w needs tables of w.

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_ELIMINATION_H
#define ASHLAR_PASSES_SEARCH_SOLVER_ELIMINATION_H

#include "passes/search/solver/decision_graph.h"
#include "passes/search/solver/effort.h"

#include <optional>

namespace ashlar::search {

// The result of a search.
struct Solution {
  Choices choices;
  Cost cost = 0;  // of the choices
  Cost bound = 0; // nothing costs less; equal to `cost` where the choices are proven the best
};

// The largest table of an exact elimination.
constexpr size_t kMostTableEntries = size_t(1) << 20;

// Returns the choices with the least cost, ignoring the rows. The best is found if no table gets larger than `mostEntries`. A node with a
// larger one is eliminated into several tables, each at its own best (mini-buckets; Dechter and Rish 2003): then the bound is below the
// optimum, and the choices, improved one node at a time, may cost more. Counts its work; once the effort is over, no table is joined with
// another one unless the result has a single entry, which ends it at the cost of the tables that there are.
Solution eliminate(const DecisionGraph &graph, Effort &effort, size_t mostEntries = kMostTableEntries);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_ELIMINATION_H
