// SPDX-License-Identifier: Apache-2.0
//
// A decision graph as an integer linear program: one variable a choice, one a pair of choices of an edge, and the rows as constraints. The
// solver is CBC (COIN-OR; EPL 2.0).

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_INTEGER_PROGRAM_H
#define ASHLAR_PASSES_SEARCH_SOLVER_INTEGER_PROGRAM_H

#include "passes/search/solver/elimination.h"

#include <limits>

namespace ashlar::search {

// Returns the choices with the least cost among choices that take at most `limit` of every row, or nothing when the solver found none
// before the effort was over. The effort counts and bounds the iterations of the simplex method; the passes of cuts at the root are bounded
// in number. The bound is the solver's proof; `known`: choices that keep the limit, if any, where the search starts.
std::optional<Solution> solveIntegerProgram(const DecisionGraph &graph, Effort &effort, int64_t limit = std::numeric_limits<int64_t>::max(),
                                            const std::optional<Choices> &known = std::nullopt);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_INTEGER_PROGRAM_H
