// SPDX-License-Identifier: Apache-2.0
//
// The best choices of a decision graph within a limit.

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_SOLVE_H
#define ASHLAR_PASSES_SEARCH_SOLVER_SOLVE_H

#include "passes/search/solver/elimination.h"

#include <limits>

namespace ashlar::search {

enum class Method { DynamicProgramming, IntegerProgram };

struct Request {
  Method method = Method::DynamicProgramming;
  int64_t limit = std::numeric_limits<int64_t>::max(); // of what choices may take of each row
  double seconds = 60;                                 // after which the best that was found has to do
  std::vector<Choices> known;                          // to start from
};

struct Found : Solution {
  bool fits = true; // else nothing was found that keeps the limit, and the choices are those that take least
  // Found on the way, with the limit kept: cost more, but maybe not once all is counted that the graph does not count.
  std::vector<Choices> others;
};

// Returns the choices that cost the least within the limit, and what is proven of them.
//
// The relaxation bounds from below what is best; where the limit matters, each row gets a price, found by subgradient steps. Choices that
// are proven to cost more than the best ones that are known are left out, and the rest is eliminated, which is exact where no table gets
// too large. Where it is not, parts of the graph are decided exactly while all else stays. The integer program closes what is left between
// the two, for which dynamic programming takes the best that it found.
Found solve(const DecisionGraph &graph, const Request &request);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_SOLVE_H
