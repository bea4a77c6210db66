// SPDX-License-Identifier: Apache-2.0
//
// The planner: which axes may serve, from names to numbers and back, and the plans made so far.

#include "passes/analysis/planner/redistribution.h"

#include "dialects/support/element_type.h"
#include "passes/analysis/planner/cut_axes.h"
#include "passes/analysis/planner/numbered_problem.h"

#include <map>

using namespace mlir;

namespace ashlar::analysis {

dist::Layout applyStep(const dist::Layout &layout, const Step &step) {
  dist::Layout next = layout;
  switch (step.kind) {
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllReduce:
    llvm::erase_if(next.partial, [&](StringAttr axis) { return llvm::is_contained(step.axes, axis); });
    if (step.kind == CollectiveKind::ReduceScatter) {
      llvm::append_range(next.dims[step.dim], step.axes);
    }
    return next;
  case CollectiveKind::Slice:
    llvm::append_range(next.dims[step.dim], step.axes);
    return next;
  case CollectiveKind::AllGather:
    next.dims[step.dim].pop_back_n(step.axes.size());
    return next;
  case CollectiveKind::AllToAll:
    next.dims[step.concatDim].pop_back_n(step.axes.size());
    llvm::append_range(next.dims[step.dim], step.axes);
    return next;
  case CollectiveKind::Permute:
    next.dims = step.dims;
    return next;
  case CollectiveKind::Broadcast:
  case CollectiveKind::Halo:
    break; // no redistribution needs one: what all devices hold is equal already, and a halo makes no layout
  }
  llvm_unreachable("no such step in a plan");
}

namespace {

// Returns for each dim the number of the piece that a device of the group over `axes` holds, not counting the axes outside the group.
SmallVector<int64_t> pieceOf(dist::MeshAttr mesh, ArrayRef<dist::AxisList> dims, ArrayRef<StringAttr> axes, int64_t device) {
  SmallVector<int64_t> piece;
  for (const dist::AxisList &list : dims) {
    int64_t number = 0;
    for (StringAttr axis : list) {
      const StringAttr *at = llvm::find(axes, axis);
      int64_t size = mesh.axisSize(axis);
      int64_t coordinate = at == axes.end() ? 0 : device / mesh.groupSize(ArrayRef<StringAttr>(at + 1, axes.end())) % size;
      number = number * size + coordinate;
    }
    piece.push_back(number);
  }
  return piece;
}

} // namespace

SmallVector<int64_t> permuteSources(dist::MeshAttr mesh, const dist::Layout &layout, const Step &step) {
  std::map<SmallVector<int64_t>, SmallVector<int64_t>> holders, takers; // of each piece, in rising order
  for (int64_t device = 0; device < mesh.groupSize(step.axes); ++device) {
    SmallVector<int64_t> held = pieceOf(mesh, layout.dims, step.axes, device);
    SmallVector<int64_t> taken = pieceOf(mesh, step.dims, step.axes, device);
    if (held == taken) {
      continue;
    }
    holders[held].push_back(device);
    takers[taken].push_back(device);
  }
  SmallVector<int64_t> sources = llvm::to_vector(llvm::seq<int64_t>(0, mesh.groupSize(step.axes)));
  for (const auto &[piece, targets] : takers) {
    for (auto [target, source] : llvm::zip_equal(targets, holders.at(piece))) {
      sources[target] = source;
    }
  }
  return sources;
}

const Plan &Planner::plan(RankedTensorType type, const dist::Layout &from, const dist::Layout &to) {
  assert(llvm::all_of(to.partial, [&](StringAttr axis) { return llvm::is_contained(from.partial, axis); }) && "target more partial");
  MLIRContext *context = type.getContext();
  std::unique_ptr<Plan> &plan = plans[{type, dist::LayoutAttr::get(context, from), dist::LayoutAttr::get(context, to)}];
  if (!plan) {
    std::optional<Plan> found = search(type, from, to, /*avoided=*/nullptr);
    assert(found && "gather, then slice is always a way");
    found->wholePs = found->timePs;
    std::optional<Plan> cut = cuts == Cuts::Allowed ? searchCut(type, from, to, *found) : std::nullopt;
    plan = std::make_unique<Plan>(std::move(cut ? *cut : *found));
  }
  return *plan;
}

std::optional<Plan> Planner::runnerUp(RankedTensorType type, const dist::Layout &from, const dist::Layout &to) {
  RedistributionSearch::Kinds kinds;
  for (const Step &step : plan(type, from, to).steps) {
    if (step.kind != CollectiveKind::Slice) {
      kinds.push_back(step.kind);
    }
  }
  return search(type, from, to, &kinds);
}

Planner &Planner::ofParts(const MeshRefinement &refinement) {
  std::unique_ptr<Planner> &planner = finerPlanners[refinement.refinedMesh()];
  if (!planner) {
    planner.reset(new Planner(refinement.refinedMesh(), refinement.refineLinks(links), Cuts::None));
  }
  return *planner;
}

Planner &Planner::withoutCuts() {
  return cuts == Cuts::None ? *this : ofParts(MeshRefinement(mesh));
}

// Returns the plan on parts of axes that is faster than the best one on whole axes; nothing where there is none.
std::optional<Plan> Planner::searchCut(RankedTensorType type, const dist::Layout &from, const dist::Layout &to, const Plan &whole) {
  if (!mayBeFasterCut(whole)) {
    return std::nullopt;
  }
  const dist::Layout begin = dist::withoutUnitAxes(mesh, from), end = dist::withoutUnitAxes(mesh, to);
  MeshRefinement parts = cutMovedAxes(mesh, begin, end);
  if (parts.refinedMesh() == mesh || !keepsPieces(parts, type, begin) || !keepsPieces(parts, type, end)) {
    return std::nullopt;
  }
  Planner &finer = ofParts(parts);
  const int64_t expandedBefore = finer.expandedLayouts;
  const Plan &plan = finer.plan(type, parts.refine(begin), parts.refine(end));
  expandedLayouts += finer.expandedLayouts - expandedBefore;
  if (plan.timePs >= whole.timePs) {
    return std::nullopt;
  }
  Plan found = plan;
  found.wholePs = whole.timePs;
  found.cuts = std::make_shared<const MeshRefinement>(std::move(parts));
  return found;
}

std::optional<Plan> Planner::search(RankedTensorType type, const dist::Layout &from, const dist::Layout &to,
                                    const SmallVector<CollectiveKind> *avoided) {
  auto searchUpTo = [&](size_t axes) {
    NumberedProblem problem(mesh, links.axes, type, dist::withoutUnitAxes(mesh, from), dist::withoutUnitAxes(mesh, to), axes);
    bool isSmall = problem.get().axes.size() <= kExactAxes;
    RedistributionSearch search(problem.get(), isSmall ? RedistributionSearch::Exhaustive : RedistributionSearch::Focused);
    auto steps = search.run(avoided);
    expandedLayouts += search.countExpanded();
    return steps ? std::optional<Plan>(problem.name(*steps)) : std::nullopt;
  };
  std::optional<Plan> best = searchUpTo(kExactAxes);
  if (best && best->leastPs < best->timePs) { // axes that move as one, or that found no room, may have to be apart
    std::optional<Plan> other = searchUpTo(kMostAxes);
    int64_t ends = std::max(byteSize(dist::localType(mesh, type, from)), byteSize(dist::localType(mesh, type, to)));
    auto rank = [&](const Plan &plan) { return std::tuple(plan.peakBytes > ends, plan.timePs, plan.bytes, plan.steps.size()); };
    if (other && rank(*other) < rank(*best)) {
      best = std::move(other);
    }
  }
  return best;
}

} // namespace ashlar::analysis
