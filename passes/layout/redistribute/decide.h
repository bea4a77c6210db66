// SPDX-License-Identifier: Apache-2.0
//
// How an assignment is decided, and the steps of that.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_DECIDE_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_DECIDE_H

#include "passes/layout/inference/assignment.h"

#include "llvm/ADT/BitVector.h"

namespace ashlar::layout {

// Decides on everything: the split with which each op computes (chooseSplit), then by which redistributions values get to it
// (shareRedistributions), and which sums are combined later (delayReductions). Fails, with an error, where a layout is missing or a
// model that places its collectives itself would need another.
mlir::FailureOr<Assignment> decide(const LayoutProblem &problem, analysis::Planner &planner);

// Returns the values that only add up in variables which delayThroughVariables() lets hold terms of a sum, by linear ops on the way: the
// gradients of micro-batches.
llvm::BitVector findDelayedSums(const LayoutProblem &problem);

// Returns the split of factors in which an op computes. Where all its tensors agree there is nothing to choose; otherwise the split with
// the shortest time of redistributions of operands and results, then with the fewest bytes, and among equals the one that uses more axes,
// which is less work a device. Given layouts of operands decide their factors. `delaysSum`: the result is a delayed sum, whose terms cost
// nothing here where keepsTerms(). `planner` is the mesh's planner. Assumes that the op has a rule, and that every
// operand and result has a given layout, none partial.
FactorSplit chooseSplit(const LayoutProblem &problem, const ProblemOp &op, analysis::Planner &planner, bool delaysSum);

// Returns the cost of the halos between devices when an op over windows computes with a split whose results are of one reduction.
analysis::HaloCost haloCostOf(const LayoutProblem &problem, const ProblemOp &op, const FactorSplit &split, analysis::Planner &planner);

// Takes each value to all layouts that its users want by the fastest tree of redistributions: one may start where another ended. Layouts
// that only lay on the way are left out.
//   p partial -> whole -> split                   ==> p partial -> split, where nothing uses it whole: a reduce-scatter
//   p partial -> whole and p partial -> split     ==> p partial -> whole -> split: it is reduced once, and then cut
void shareRedistributions(const LayoutProblem &problem, Assignment &assignment, analysis::Planner &planner);

// Computes linear ops on the terms of a sum, and combines the terms after them, where that takes less time:
//   add(sum(p), sum(q))                ==> sum(add(p, q))         a parameter used twice is summed once
//   sub(sum(p), mul(sum(q), s))        ==> sum(sub(p, mul(q, s)))
//   reduce sum(sum(p))                 ==> sum(reduce sum(p))     less is sent
//   split(neg(sum(p)))                 ==> sum and split(neg(p))  a reduce-scatter
//   (sum(p) + w) + sum(q)              ==> w + sum(p + q)         for scalars, in chains of any length
// A sum that adds up in a carried value of a loop, from 0 on, is combined behind the loop.
// Values that something else uses whole stay as they are.
void delayReductions(const LayoutProblem &problem, const ProblemProgram &program, Assignment &assignment, analysis::Planner &planner);

// Whether a variable may hold terms of a sum where the layouts of its programs say so.
bool mayHoldTerms(nn::VariableOp variable);

// Whether a device holds its terms of a sum rather than its part: where they are no larger, or the job asks for it.
bool keepsTerms(mlir::Operation *op, int64_t termBytes, int64_t sumBytes);

// Adds up terms of a sum in a variable, where only the programs know it, and combines them where its value goes elsewhere: the gradients of
// micro-batches are combined once, by the program of the update. Only where keepsTerms().
//   write(v, add(read(v), sum(p)))     ==> write(v, add(read(v), p)), and sum(read(v)) in other programs
void delayThroughVariables(const LayoutProblem &problem, Assignment &assignment, analysis::Planner &planner);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_DECIDE_H
