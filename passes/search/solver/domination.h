// SPDX-License-Identifier: Apache-2.0
//
// Choices that need not be looked at.

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_DOMINATION_H
#define ASHLAR_PASSES_SEARCH_SOLVER_DOMINATION_H

#include "passes/search/solver/decision_graph.h"

namespace ashlar::search {

// Returns for each node the choices that are left when those are left out than which another one of their node is never worse, whatever
// the neighbours choose (Goldstein 1994), until there are none. `own`: what the choices of each node cost by themselves. `keepsAmounts`:
// a choice is only left out for one that takes no more of any row.
std::vector<std::vector<unsigned>> findWorthwhile(const DecisionGraph &graph, const std::vector<std::vector<Cost>> &own,
                                                  bool keepsAmounts = false);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_DOMINATION_H
