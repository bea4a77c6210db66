// SPDX-License-Identifier: Apache-2.0
//
// Sums that are cheaper later.

#ifndef ASHLAR_PASSES_LAYOUT_DELAY_REDUCTIONS_H
#define ASHLAR_PASSES_LAYOUT_DELAY_REDUCTIONS_H

#include "passes/layout/assignment.h"

namespace ashlar::layout {

// Computes linear ops on the terms of a sum, and combines the terms after them, where that takes less time:
//   add(sum(p), sum(q))                ==> sum(add(p, q))         a parameter used twice is summed once
//   sub(sum(p), mul(sum(q), s))        ==> sum(sub(p, mul(q, s)))
//   reduce sum(sum(p))                 ==> sum(reduce sum(p))     less is sent
//   split(neg(sum(p)))                 ==> sum and split(neg(p))  a reduce-scatter
// Values that something else uses whole stay as they are.
void delayReductions(const LayoutProblem &problem, const ProblemProgram &program, Assignment &assignment, dist::Planner &planner);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_DELAY_REDUCTIONS_H
