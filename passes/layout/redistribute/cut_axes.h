// SPDX-License-Identifier: Apache-2.0
//
// Which mesh axes are cut for the redistributions of a module. Each plan cuts axes by itself; the mesh is cut for all of them or for none.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_CUT_AXES_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_CUT_AXES_H

#include "passes/layout/inference/assignment.h"
#include "passes/layout/rules/layout_text.h"

namespace ashlar::layout {

// Whether axes of the mesh may be cut: not in a model with its own collectives, which name axes, and are one step each.
bool mayCutAxes(const LayoutProblem &problem);

// Returns the cuts of mesh axes that the plans of an assignment ask for; nothing where they ask for none, or where all redistributions
// together take no less time with them, or where a device would then hold another shard. `planner` cuts axes.
//   [{dp}, {tp}] -> [{tp}, {dp}] on dp = 2, tp = 4:
//     all_to_all dp, all_to_all tp dp, all_to_all dp       ==> all_to_all tp:(2)2, permute dp tp:(1)2
std::optional<MeshRefinement> findCuts(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner);

// Whether a plan of an assignment asks for cuts.
bool asksForCuts(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner);

// Writes the refined mesh into a problem and its assignment.
void refine(const MeshRefinement &refinement, LayoutProblem &problem, Assignment &assignment);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_CUT_AXES_H
