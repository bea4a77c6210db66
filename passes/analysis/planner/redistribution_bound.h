// SPDX-License-Identifier: Apache-2.0
//
// A lower bound on the time of plans: a focused search is guided by it, and its optimality gap computed from it.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_BOUND_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_BOUND_H

#include "passes/analysis/planner/search_space.h"

namespace ashlar::analysis {

// Returns a time that every way from `from` to the end of the problem takes at least, whatever layouts it passes.
//
// Of N devices, an element that is n terms needs n-1 messages until some device has its sum, and then one for each other device that wants
// it; an element that h devices hold and m want needs m-h. All devices send alike in a step, so each sends 1/N of that. The same holds for
// groups of devices that only slower links join: traffic between them has the rate of those links. Messages follow one another at least
// log2(n) times for a sum of n terms, twice that when the shards are not smaller afterwards, and log2(k) times for shards k times as large.
int64_t leastTimePs(const SearchSpace &space, const NumberedLayout &from);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_BOUND_H
