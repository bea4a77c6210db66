// SPDX-License-Identifier: Apache-2.0
//
// The planner: which axes may serve, from names to numbers and back, and the plans made so far.

#include "dialects/dist/redistribution.h"

#include "dialects/dist/redistribution_search.h"
#include "dialects/support/element_type.h"

#include <map>

using namespace mlir;

namespace ashlar::dist {

Layout applyStep(const Layout &layout, const Step &step) {
  Layout next = layout;
  switch (step.kind) {
  case Step::ReduceScatter:
  case Step::AllReduce:
    llvm::erase_if(next.partial, [&](StringAttr axis) { return llvm::is_contained(step.axes, axis); });
    if (step.kind == Step::ReduceScatter) {
      llvm::append_range(next.dims[step.dim], step.axes);
    }
    return next;
  case Step::Slice:
    llvm::append_range(next.dims[step.dim], step.axes);
    return next;
  case Step::AllGather:
    next.dims[step.dim].pop_back_n(step.axes.size());
    return next;
  case Step::AllToAll:
    next.dims[step.concatDim].pop_back_n(step.axes.size());
    llvm::append_range(next.dims[step.dim], step.axes);
    return next;
  case Step::Permute:
    next.dims = step.dims;
    return next;
  }
  llvm_unreachable("unknown step");
}

namespace {

// Returns for each dim the number of the piece that a device of the group over `axes` holds, not counting the axes outside the group.
SmallVector<int64_t> pieceOf(MeshAttr mesh, ArrayRef<AxisList> dims, ArrayRef<StringAttr> axes, int64_t device) {
  SmallVector<int64_t> piece;
  for (const AxisList &list : dims) {
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

// One redistribution in the search's terms. State: the names of the axes that may serve, by number.
class NumberedProblem {
public:
  NumberedProblem(MeshAttr mesh, ArrayRef<Link> links, RankedTensorType type, const Layout &from, const Layout &to)
      : problem{type.getShape(), elementBytes(type.getElementType()), {}, {}, {}, 0} {
    chooseAxes(mesh, links, from, to);
    for (StringAttr axis : names) {
      size_t position = *mesh.findAxis(axis);
      problem.axes.push_back({mesh.getSizes()[position], links[position]});
    }
    problem.from = number(from);
    problem.to = number(to);
  }

  const SearchProblem &get() const { return problem; }

  // Returns the plan that a search found.
  Plan name(const RedistributionSearch &search, ArrayRef<SearchStep> steps) const {
    Plan plan;
    plan.peakBytes = std::max(search.localBytes(problem.from), search.localBytes(problem.to));
    for (const SearchStep &found : steps) {
      Step step{found.kind, nameAxes(found.axes), found.dim, found.concatDim, {}, found.bytes, found.timePs};
      if (step.kind == Step::Permute) {
        step.dims = llvm::map_to_vector(found.after.dims, [&](const AxisNumbers &list) { return nameAxes(list); });
      }
      plan.bytes += step.bytes;
      plan.timePs += step.timePs;
      plan.peakBytes = std::max(plan.peakBytes, search.localBytes(found.after));
      plan.steps.push_back(std::move(step));
    }
    return plan;
  }

private:
  // The axes that an end uses, then idle ones that are faster than one of those, in the mesh's order.
  void chooseAxes(MeshAttr mesh, ArrayRef<Link> links, const Layout &from, const Layout &to) {
    constexpr size_t kMostAxesWithIdle = 4; // more make the search long
    auto isUsed = [&](StringAttr axis) { return from.uses(axis) || to.uses(axis); };
    auto used = llvm::to_vector(llvm::make_filter_range(mesh.getAxes(), isUsed));
    assert(used.size() <= 32 && "more axes than a set of them holds");
    size_t count = used.size();
    for (auto [axis, size, link] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes(), links)) {
      bool isFaster = llvm::any_of(used, [&, link = link](StringAttr other) { return link.isFasterThan(links[*mesh.findAxis(other)]); });
      if (isUsed(axis)) {
        names.push_back(axis);
      } else if (size > 1 && isFaster && count < kMostAxesWithIdle) {
        problem.idle |= 1u << names.size();
        names.push_back(axis);
        ++count;
      }
    }
  }

  NumberedLayout number(const Layout &layout) const {
    auto numberOf = [&](StringAttr axis) { return static_cast<uint8_t>(llvm::find(names, axis) - names.begin()); };
    NumberedLayout numbered;
    for (const AxisList &list : layout.dims) {
      numbered.dims.emplace_back(llvm::map_range(list, numberOf));
    }
    for (StringAttr axis : layout.partial) {
      numbered.partial |= 1u << numberOf(axis);
    }
    return numbered;
  }

  AxisList nameAxes(ArrayRef<uint8_t> list) const {
    AxisList axes;
    for (uint8_t axis : list) {
      axes.push_back(names[axis]);
    }
    return axes;
  }

  SearchProblem problem;
  AxisList names;
};

} // namespace

SmallVector<int64_t> permuteSources(MeshAttr mesh, const Layout &layout, const Step &step) {
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

const Plan &Planner::plan(RankedTensorType type, const Layout &from, const Layout &to) {
  assert(llvm::all_of(to.partial, [&](StringAttr axis) { return llvm::is_contained(from.partial, axis); }) && "target more partial");
  MLIRContext *context = type.getContext();
  std::unique_ptr<Plan> &plan = plans[{type, LayoutAttr::get(context, from), LayoutAttr::get(context, to)}];
  if (!plan) {
    NumberedProblem problem(mesh, links, type, withoutUnitAxes(mesh, from), withoutUnitAxes(mesh, to));
    RedistributionSearch search(problem.get());
    auto steps = search.run();
    assert(steps && "gather, then slice is always a way");
    plan = std::make_unique<Plan>(problem.name(search, *steps));
  }
  return *plan;
}

std::optional<Plan> Planner::runnerUp(RankedTensorType type, const Layout &from, const Layout &to) {
  RedistributionSearch::Kinds kinds;
  for (const Step &step : plan(type, from, to).steps) {
    if (step.kind != Step::Slice) {
      kinds.push_back(step.kind);
    }
  }
  NumberedProblem problem(mesh, links, type, withoutUnitAxes(mesh, from), withoutUnitAxes(mesh, to));
  RedistributionSearch search(problem.get());
  auto steps = search.run(&kinds);
  return steps ? std::optional<Plan>(problem.name(search, *steps)) : std::nullopt;
}

} // namespace ashlar::dist
