// SPDX-License-Identifier: Apache-2.0
//
// The one step between two layouts, for communication that a model places itself: it is kept as it is, whatever a plan would do.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_SINGLE_STEP_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_SINGLE_STEP_H

#include "passes/analysis/planner/redistribution.h"

namespace ashlar::analysis {

// Returns the step whose applyStep takes `from` to `to`; nothing when none does.
//   [{}], partial = sum {"dp"} -> [{}]          all_reduce dp
//   [{"x", "y"}, {}] -> [{"x"}, {"y"}]          all_to_all split 1 concat 0 y
//   [{"x"}, {}] -> [{}, {}], partial = ...      nothing: partial values are computed, not made
std::optional<Step> findSingleStep(const dist::Layout &from, const dist::Layout &to);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_SINGLE_STEP_H
