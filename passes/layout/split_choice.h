// SPDX-License-Identifier: Apache-2.0
//
// With which split of its factors an op computes.

#ifndef ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H
#define ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H

#include "dialects/dist/redistribution.h"
#include "passes/layout/layout_problem.h"

namespace ashlar::layout {

// Returns the split of factors that an op should compute with. Where all its tensors agree there is nothing to choose; otherwise the one
// whose operands are brought and results taken in the shortest time, then with the fewest bytes, and among equals the one that uses more
// axes, which is less work a device. The factors of operands that the op is told how to take are split so. `planner` is that of the mesh.
// Assumes that the op has a rule, and that every operand and result has a given layout, none partial.
FactorSplit chooseSplit(const LayoutProblem &problem, const ProblemOp &op, dist::Planner &planner);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H
