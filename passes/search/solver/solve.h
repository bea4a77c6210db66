// SPDX-License-Identifier: Apache-2.0
//
// The best choices of a decision graph within a limit.

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_SOLVE_H
#define ASHLAR_PASSES_SEARCH_SOLVER_SOLVE_H

#include "passes/search/solver/elimination.h"

#include <limits>

namespace ashlar::search {

struct Request {
  bool usesIntegerProgram = false;                     // where dynamic programming leaves a gap
  int64_t limit = std::numeric_limits<int64_t>::max(); // on the amount of each row
  std::vector<Choices> known;                          // to start from
};

struct Found : Solution {
  bool fits = true; // else no choices within the limit were found, and these take least
  // Found on the way, with the limit kept: cost more, but maybe not once all is counted that the graph does not count.
  std::vector<Choices> others;
};

// Returns the choices with the least cost within the limit, and the proven bound. Once the effort is over, which it counts, the best
// choices found count.
//
// The relaxation bounds the optimum from below; where the limit matters, each row gets a multiplier, found by subgradient steps. Choices
// that are proven to cost more than the best known ones are removed, and the rest is eliminated, which is exact if no table gets too large.
// Otherwise, parts of the graph are decided exactly while all else stays. The integer program closes the remaining gap, for which dynamic
// programming takes the best choices found.
Found solve(const DecisionGraph &graph, const Request &request, Effort &effort);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_SOLVE_H
