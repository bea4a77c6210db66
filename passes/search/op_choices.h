// SPDX-License-Identifier: Apache-2.0
//
// The splits with which an op may compute.

#ifndef ASHLAR_PASSES_SEARCH_OP_CHOICES_H
#define ASHLAR_PASSES_SEARCH_OP_CHOICES_H

#include "passes/analysis/planner/redistribution.h"
#include "passes/layout/inference/layout_problem.h"

namespace ashlar::search {

// A split of an op's factors, and its costs.
struct OpChoice {
  layout::FactorSplit split;
  llvm::SmallVector<dist::LayoutAttr> operands, results; // as it takes and makes them; results may be partial, operands of linear ops too
  int64_t sendPs = 0;                                    // of communication inside the op: halos of windows, sums of an expansion
};

// Returns whether an operand of an op can be terms of a sum over an axis.
using MayBeTerms = llvm::function_ref<bool(unsigned operand, mlir::StringAttr axis)>;

// Returns the choices of an op that has a rule: each mesh axis, in the mesh's order, shards one of the factors or none, or a linear op
// computes on terms of a sum over it. The first choice shards nothing. Left out are splits that leave a device without a part, that
// contradict the op's given operand layouts, and that have sums of two kinds at once.
std::vector<OpChoice> listChoices(const layout::LayoutProblem &problem, const layout::ProblemOp &op, analysis::Planner &planner,
                                  MayBeTerms mayBeTerms);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_OP_CHOICES_H
