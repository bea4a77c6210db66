// SPDX-License-Identifier: Apache-2.0
//
// Which axes one redistribution may be faster with as parts. The planner moves an axis as a whole; where axes of unequal sizes change
// places, a part of the longer one can be exchanged for the shorter one.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_CUT_AXES_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_CUT_AXES_H

#include "passes/analysis/planner/redistribution.h"

namespace ashlar::analysis {

// Returns whether a plan may be slower than one that moves parts of axes: a single collective other than a permute moves no axis in vain.
bool mayBeFasterCut(const Plan &plan);

// Returns the cuts of the axes that a redistribution moves, each where it is as long as the greatest common divisor with another one; where
// that leaves few enough axes to search exhaustively, also between its prime factors. The part that is exchanged is the major one, while
// the rest goes from dim to dim. Axes that are parts already stay.
//   [{dp}, {tp}] -> [{tp}, {dp}] on dp = 2, tp = 4:  tp:(1)2, tp:(2)2
MeshRefinement cutMovedAxes(dist::MeshAttr mesh, const dist::Layout &from, const dist::Layout &to);

// Cuts an axis behind its first `count` devices, unless it is a part itself or the cut would not nest with the others.
void cutBehind(MeshRefinement &refinement, mlir::StringAttr axis, int64_t count);

// Returns whether each device holds the same piece of a tensor as before.
bool keepsPieces(const MeshRefinement &refinement, mlir::RankedTensorType type, const dist::Layout &layout);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_CUT_AXES_H
