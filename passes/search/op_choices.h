// SPDX-License-Identifier: Apache-2.0
//
// The splits with which an op may compute.

#ifndef ASHLAR_PASSES_SEARCH_OP_CHOICES_H
#define ASHLAR_PASSES_SEARCH_OP_CHOICES_H

#include "passes/analysis/planner/redistribution.h"
#include "passes/layout/inference/layout_problem.h"

namespace ashlar::search {

// A split of an op's factors, and what follows from it.
struct OpChoice {
  layout::FactorSplit split;
  llvm::SmallVector<dist::LayoutAttr> operands, results; // as it takes and makes them; results may be partial
  int64_t sendPs = 0; // of what devices send each other inside the op: overlaps of windows, sums of an expansion
};

// Returns the choices of an op that has a rule: each mesh axis, in the mesh's order, splits one of the factors or none. The first choice is
// to split nothing. Left out is what a device would have no part in, what does not fit how the op is told to take its operands, and sums of
// two kinds at once.
std::vector<OpChoice> listChoices(const layout::LayoutProblem &problem, const layout::ProblemOp &op, dist::Planner &planner);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_OP_CHOICES_H
