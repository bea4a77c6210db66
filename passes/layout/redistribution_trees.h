// SPDX-License-Identifier: Apache-2.0
//
// Redistributions of one value, planned together.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTION_TREES_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTION_TREES_H

#include "passes/layout/assignment.h"

namespace ashlar::layout {

// Takes each value to all layouts that its users want by the fastest tree of redistributions: one may start where another ended. Layouts
// that only lay on the way are left out.
//   p partial -> whole -> split                   ==> p partial -> split, where nothing uses it whole: a reduce-scatter
//   p partial -> whole and p partial -> split     ==> p partial -> whole -> split: it is reduced once, and then cut
void shareRedistributions(const LayoutProblem &problem, Assignment &assignment, dist::Planner &planner);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTION_TREES_H
