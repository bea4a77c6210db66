// SPDX-License-Identifier: Apache-2.0
//
// The cuts of all plans, taken together when they save time together.

#include "passes/layout/redistribute/cut_axes.h"

#include "passes/analysis/planner/cut_axes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

// The type of a tensor, and the layouts from and to which it is redistributed.
using Redistribution = std::tuple<RankedTensorType, dist::LayoutAttr, dist::LayoutAttr>;
using Redistributions = llvm::MapVector<Redistribution, int64_t>; // with how often each runs

Redistributions collect(const LayoutProblem &problem, const Assignment &assignment) {
  Redistributions all;
  for (auto [number, holdings] : llvm::enumerate(assignment.values)) {
    std::optional<unsigned> maker = problem.values[number].maker;
    if (maker && problem.ops[*maker].isSource()) {
      continue; // made again in the other layout
    }
    assignment.forEachRedistribution(number, [&, number = number, &holdings = holdings](unsigned place) {
      const Holding &holding = holdings[place];
      RankedTensorType type = problem.typeOf(number);
      all[{type.clone(holding.travels ? holding.travels : type.getElementType()), holdings[holding.parent].layout, holding.layout}] +=
          problem.values[number].runs;
    });
  }
  return all;
}

const analysis::Plan &planOf(const Redistribution &redistribution, analysis::Planner &planner) {
  auto [type, from, to] = redistribution;
  return planner.plan(type, from.getLayout(), to.getLayout());
}

bool keepsPieces(const MeshRefinement &refinement, const LayoutProblem &problem, const Assignment &assignment) {
  auto keepsGiven = [&](const ProblemTensor &tensor) {
    return !tensor.given || analysis::keepsPieces(refinement, tensor.type, tensor.given->layout);
  };
  return llvm::all_of(problem.tensors, keepsGiven) && llvm::all_of(llvm::enumerate(assignment.values), [&](const auto &value) {
           return llvm::all_of(value.value(), [&](const Holding &holding) {
             return analysis::keepsPieces(refinement, problem.typeOf(value.index()), holding.layout.getLayout());
           });
         });
}

// Whether all redistributions together take less time on the refined mesh than where none is cut.
bool savesTime(const MeshRefinement &refinement, const Redistributions &all, analysis::Planner &planner) {
  __int128 savedPs = 0; // of a slow machine a long program may take more than 64 bits hold
  for (const auto &[redistribution, count] : all) {
    auto [type, from, to] = redistribution;
    const analysis::Plan &finer =
        planner.ofParts(refinement).plan(type, refinement.refine(from.getLayout()), refinement.refine(to.getLayout()));
    savedPs += (static_cast<__int128>(planOf(redistribution, planner).wholePs) - finer.timePs) * count;
  }
  return savedPs > 0;
}

} // namespace

bool mayCutAxes(const LayoutProblem &problem) {
  return llvm::none_of(problem.ops, [](const ProblemOp &op) { return op.op->hasAttr(dist::kExplicitAttr); });
}

std::optional<MeshRefinement> findCuts(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner) {
  const Redistributions all = collect(problem, assignment);
  MeshRefinement cuts(problem.mesh);
  for (const auto &[redistribution, count] : all) {
    const analysis::Plan &plan = planOf(redistribution, planner);
    for (StringAttr axis : plan.cuts ? problem.mesh.getAxes() : ArrayRef<StringAttr>()) {
      for (auto [begin, end] : plan.cuts->pieces(axis)) {
        analysis::cutBehind(cuts, axis, begin);
      }
    }
  }
  const bool cutsAxes = cuts.refinedMesh() != problem.mesh;
  const bool pays = cutsAxes && keepsPieces(cuts, problem, assignment) && savesTime(cuts, all, planner);
  return pays ? std::optional(std::move(cuts)) : std::nullopt;
}

bool asksForCuts(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner) {
  return llvm::any_of(collect(problem, assignment), [&](const auto &item) { return planOf(item.first, planner).cuts != nullptr; });
}

void refine(const MeshRefinement &refinement, LayoutProblem &problem, Assignment &assignment) {
  problem.mesh = refinement.refinedMesh();
  for (ProblemTensor &tensor : problem.tensors) {
    if (tensor.given) {
      tensor.given->layout = refinement.refine(tensor.given->layout);
    }
  }
  for (Holdings &holdings : assignment.values) {
    for (Holding &holding : holdings) {
      holding.layout = dist::LayoutAttr::get(problem.mesh.getContext(), refinement.refine(holding.layout.getLayout()));
    }
  }
}

} // namespace ashlar::layout
