// SPDX-License-Identifier: Apache-2.0
//
// Choices that need not be looked at.

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_DOMINATION_H
#define ASHLAR_PASSES_SEARCH_SOLVER_DOMINATION_H

#include "passes/search/solver/decision_graph.h"

namespace ashlar::search {

// Returns for each node the choices that remain when dominated ones are removed: a choice is dominated by another one of its node that is
// never worse, whatever the neighbours choose (Goldstein 1994), until none are left. `own`: the cost of the choices of each node by
// themselves. `keepsAmounts`: a choice is only dominated by one that takes no more of any row.
std::vector<std::vector<unsigned>> findWorthwhile(const DecisionGraph &graph, const std::vector<std::vector<Cost>> &own,
                                                  bool keepsAmounts = false);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_DOMINATION_H
