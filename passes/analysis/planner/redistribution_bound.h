// SPDX-License-Identifier: Apache-2.0
//
// What no plan can be faster than: a focused search aims by it, and what it may have missed is told by it.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_BOUND_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_BOUND_H

#include "passes/analysis/planner/search_space.h"

namespace ashlar::dist {

// Returns a time that every way from `from` to the end of the problem takes at least, whatever layouts it passes.
//
// Of N devices, an element that is n terms needs n-1 messages until some device has its sum, and then one for each other device that wants
// it; an element that h devices hold and m want needs m-h. All devices send alike in a step, so each sends 1/N of that. The same holds for
// groups of devices that only slower links join: what passes between them goes at the rate of those. Messages follow one another at least
// log2(n) times for a sum of n terms, twice that when the pieces are not smaller afterwards, and log2(k) times for pieces k times as large.
int64_t leastTimePs(const SearchSpace &space, const NumberedLayout &from);

} // namespace ashlar::dist

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_BOUND_H
