// SPDX-License-Identifier: Apache-2.0
//
// Which mesh axes are cut for the sake of redistributions. The planner moves an axis as a whole; where axes of unequal sizes change places,
// a part of the longer one can be exchanged for the shorter one.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_CUT_AXES_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_CUT_AXES_H

#include "passes/layout/inference/assignment.h"
#include "passes/layout/rules/mesh_refinement.h"

namespace ashlar::layout {

// Returns the cuts of mesh axes that shorten the redistributions of an assignment, all together; nothing when none do. The shards of
// devices stay the same, only the plans between them change. `planner` is the mesh's planner, and keeps its findings. Axes that are parts
// already are not cut, and neither is the mesh of a model with its own collectives.
//   [{dp}, {tp}] -> [{tp}, {dp}] on dp = 2, tp = 4:
//     all_to_all dp, all_to_all tp dp, all_to_all dp       ==> all_to_all tp:(2)2, permute dp tp:(1)2
std::optional<MeshRefinement> findCuts(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner);

// Returns the planner of the refined mesh, which the planner of the mesh keeps.
analysis::Planner &plannerOf(const MeshRefinement &refinement, analysis::Planner &planner);

// Writes the refined mesh into a problem and its assignment.
void refine(const MeshRefinement &refinement, LayoutProblem &problem, Assignment &assignment);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_CUT_AXES_H
