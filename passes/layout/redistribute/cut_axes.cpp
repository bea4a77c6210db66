// SPDX-License-Identifier: Apache-2.0
//
// Cuts are tried one redistribution at a time, and taken when those of all redistributions together save time.

#include "passes/layout/redistribute/cut_axes.h"

#include "passes/analysis/planner/search_space.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace ashlar::layout {

namespace {

// The type of a tensor, and the layouts from and to which it is redistributed.
using Redistribution = std::tuple<RankedTensorType, dist::LayoutAttr, dist::LayoutAttr>;
using Redistributions = llvm::MapVector<Redistribution, int64_t>; // with how often each runs

bool haveSharedFactor(int64_t size, int64_t other) {
  return size != other && std::gcd(size, other) > 1;
}

bool hasSharedFactors(MeshAttr mesh) {
  return llvm::any_of(mesh.getSizes(), [&](int64_t size) {
    return llvm::any_of(mesh.getSizes(), [&](int64_t other) { return haveSharedFactor(size, other); });
  });
}

// Whether the model places a collective itself: those name axes, and are one step each.
bool hasExplicit(const LayoutProblem &problem) {
  return llvm::any_of(problem.ops, [](const ProblemOp &op) { return op.op->hasAttr(dist::kExplicitAttr); });
}

Redistributions collect(const LayoutProblem &problem, const Assignment &assignment) {
  Redistributions all;
  for (auto [number, holdings] : llvm::enumerate(assignment.values)) {
    std::optional<unsigned> maker = problem.values[number].maker;
    if (maker && problem.ops[*maker].isSource()) {
      continue; // made again in the other layout
    }
    assignment.forEachRedistribution(number, [&, number = number, &holdings = holdings](unsigned place) {
      const Holding &holding = holdings[place];
      all[{problem.typeOf(number), holdings[holding.parent].layout, holding.layout}] += problem.values[number].runs;
    });
  }
  return all;
}

const analysis::Plan &planOf(const Redistribution &redistribution, analysis::Planner &planner) {
  auto [type, from, to] = redistribution;
  return planner.plan(type, from.getLayout(), to.getLayout());
}

const analysis::Plan &planOf(const Redistribution &redistribution, const MeshRefinement &refinement, analysis::Planner &planner) {
  auto [type, from, to] = redistribution;
  return plannerOf(refinement, planner).plan(type, refinement.refine(from.getLayout()), refinement.refine(to.getLayout()));
}

// Whether a plan may be longer than one that moves parts of axes: a single collective other than a permute moves no axis in vain.
bool mayBeShorter(const analysis::Plan &plan) {
  auto sends = [](const analysis::Step &step) { return step.kind != CollectiveKind::Slice; };
  return llvm::count_if(plan.steps, sends) > 1 ||
         llvm::any_of(plan.steps, [](const analysis::Step &step) { return step.kind == CollectiveKind::Permute; });
}

// Returns the axes that split another dim, or another place of one, at the one end than at the other.
AxisList movedAxes(MeshAttr mesh, const Layout &from, const Layout &to) {
  AxisList moved;
  for (const auto &[first, second] : llvm::zip_equal(from.dims, to.dims)) {
    auto [end, other] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
    for (StringAttr axis : llvm::concat<const StringAttr>(ArrayRef(end, first.end()), ArrayRef(other, second.end()))) {
      if (!llvm::is_contained(moved, axis)) {
        moved.push_back(axis);
      }
    }
  }
  return moved;
}

// Cuts an axis behind its first `count` devices, unless it is a part itself or the cut would not nest with those that are there.
void cutBehind(MeshRefinement &refinement, StringAttr axis, int64_t count) {
  const bool isPart = axis.getValue().contains(':');
  for (auto [begin, end] : refinement.pieces(axis)) {
    if (!isPart && begin < count && count < end && count % begin == 0 && end % count == 0) {
      auto refuse = []() -> InFlightDiagnostic { llvm_unreachable("a factor of the size of an axis"); };
      LogicalResult cut = refinement.cut({axis.str(), /*before=*/1, /*size=*/count}, refuse);
      assert(succeeded(cut) && "the axis is one of the mesh");
    }
  }
}

// Cuts the axes that a redistribution moves so that each has a part as long as another one, or as a part of it. The part is the major one,
// which is exchanged with the other axis while the rest goes from dim to dim.
void cutMoved(MeshRefinement &refinement, const Redistribution &redistribution) {
  MeshAttr mesh = refinement.getMesh();
  AxisList moved = movedAxes(mesh, std::get<1>(redistribution).getLayout(), std::get<2>(redistribution).getLayout());
  for (StringAttr axis : moved) {
    for (StringAttr other : moved) {
      const int64_t size = mesh.axisSize(axis), otherSize = mesh.axisSize(other);
      if (haveSharedFactor(size, otherSize)) {
        cutBehind(refinement, axis, std::gcd(size, otherSize));
      }
    }
  }
}

bool cutsAxes(const MeshRefinement &refinement) {
  return refinement.refinedMesh() != refinement.getMesh();
}

// Whether each device holds the same piece of a tensor as before.
bool keepsPieces(const MeshRefinement &refinement, RankedTensorType type, const Layout &layout) {
  MeshAttr mesh = refinement.getMesh();
  for (auto [size, axes] : llvm::zip_equal(type.getShape(), layout.dims)) {
    int64_t left = size;
    for (StringAttr axis : axes) {
      auto sizes = llvm::map_to_vector(refinement.pieces(axis), [](MeshRefinement::Piece piece) { return piece.second / piece.first; });
      if (!analysis::isOneCut(left, sizes)) {
        return false;
      }
      left = llvm::divideCeil(left, mesh.axisSize(axis));
    }
  }
  return true;
}

bool keepsPieces(const MeshRefinement &refinement, const LayoutProblem &problem, const Assignment &assignment) {
  auto keepsGiven = [&](const ProblemTensor &tensor) {
    return !tensor.given || keepsPieces(refinement, tensor.type, tensor.given->layout);
  };
  return llvm::all_of(problem.tensors, keepsGiven) && llvm::all_of(llvm::enumerate(assignment.values), [&](const auto &value) {
           return llvm::all_of(value.value(), [&](const Holding &holding) {
             return keepsPieces(refinement, problem.typeOf(value.index()), holding.layout.getLayout());
           });
         });
}

// Whether all redistributions together take less time on the refined mesh.
bool savesTime(const MeshRefinement &refinement, const Redistributions &all, analysis::Planner &planner) {
  __int128 savedPs = 0; // of a slow machine a long program may take more than 64 bits hold
  for (const auto &[redistribution, count] : all) {
    const int64_t before = planOf(redistribution, planner).timePs, after = planOf(redistribution, refinement, planner).timePs;
    savedPs += (static_cast<__int128>(before) - after) * count;
  }
  return savedPs > 0;
}

} // namespace

std::optional<MeshRefinement> findCuts(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner) {
  if (!hasSharedFactors(problem.mesh) || hasExplicit(problem)) {
    return std::nullopt;
  }
  const Redistributions all = collect(problem, assignment);
  MeshRefinement cuts(problem.mesh);
  for (const auto &[redistribution, count] : all) {
    const analysis::Plan &plan = planOf(redistribution, planner);
    MeshRefinement trial(problem.mesh);
    if (mayBeShorter(plan)) {
      cutMoved(trial, redistribution);
    }
    if (cutsAxes(trial) && planOf(redistribution, trial, planner).timePs < plan.timePs) {
      cutMoved(cuts, redistribution);
    }
  }
  const bool pays = cutsAxes(cuts) && keepsPieces(cuts, problem, assignment) && savesTime(cuts, all, planner);
  return pays ? std::optional(std::move(cuts)) : std::nullopt;
}

analysis::Planner &plannerOf(const MeshRefinement &refinement, analysis::Planner &planner) {
  return planner.ofParts(refinement.refinedMesh(), refinement.refineLinks(planner.getLinks()));
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
