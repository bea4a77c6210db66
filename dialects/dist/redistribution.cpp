// SPDX-License-Identifier: Apache-2.0
//
// Plans redistributions by Dijkstra over layouts. Only axes on which the two ends differ move, so the graph is small: two axes and two
// dims give some twenty layouts. Ties are broken by the order in which edges are tried, so plans are the same on every run.

#include "dialects/dist/redistribution.h"

#include "dialects/support/element_type.h"

#include <map>
#include <queue>

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
  }
  llvm_unreachable("unknown step");
}

namespace {

int64_t localBytes(MeshAttr mesh, RankedTensorType type, const Layout &layout) {
  return byteSize(localType(mesh, type, layout));
}

// Returns the bytes a rank sends in `step`, whose operand has `operandBytes`.
int64_t stepBytes(MeshAttr mesh, const Step &step, int64_t operandBytes) {
  int64_t size = mesh.groupSize(step.axes);
  switch (step.kind) {
  case Step::Slice:
    return 0;
  case Step::AllReduce:
    return collectiveBytes(CollectiveKind::AllReduce, operandBytes, size);
  case Step::ReduceScatter:
    return collectiveBytes(CollectiveKind::ReduceScatter, operandBytes, size);
  case Step::AllToAll:
    return collectiveBytes(CollectiveKind::AllToAll, operandBytes, size);
  case Step::AllGather:
    return collectiveBytes(CollectiveKind::AllGather, operandBytes, size);
  }
  llvm_unreachable("unknown step");
}

// The search. State: for each layout reached the cheapest cost known and the step that led there; `open` orders layouts by cost.
// Invariant: a layout taken from `open` at its known cost is final. O(L E log L) for L layouts of E edges each.
class Search {
public:
  Search(MeshAttr mesh, RankedTensorType type, const Layout &from, const Layout &to) : mesh(mesh), type(type), from(from), to(to) {
    for (StringAttr axis : mesh.getAxes()) {
      if (from.uses(axis) || to.uses(axis)) {
        axes.push_back(axis);
      }
    }
    limit = std::max(localBytes(mesh, type, from), localBytes(mesh, type, to));
  }

  // Returns the cheapest steps; nothing when `capped` leaves no way.
  std::optional<SmallVector<Step>> run(bool capped) {
    nodes.clear();
    keys.clear();
    cap = capped ? limit : std::numeric_limits<int64_t>::max();
    reach(from, {0, 0}, /*previous=*/-1, Step{Step::Slice, {}});
    while (!open.empty()) {
      auto [cost, index] = open.top();
      open.pop();
      if (cost != nodes[index].cost) {
        continue; // a cheaper way was found since
      }
      if (nodes[index].layout == to) {
        open = {};
        return trace(index);
      }
      expand(index);
    }
    return std::nullopt;
  }

private:
  using Cost = std::pair<int64_t, int64_t>; // bytes, steps
  struct Node {
    Layout layout;
    Cost cost;
    int64_t previous;
    Step step;
  };

  void reach(const Layout &layout, Cost cost, int64_t previous, const Step &step) {
    auto [entry, isNew] = keys.try_emplace(layout.toString(), nodes.size());
    if (isNew) {
      nodes.push_back({layout, cost, previous, step});
    } else if (cost < nodes[entry->second].cost) {
      nodes[entry->second] = {layout, cost, previous, step};
    } else {
      return;
    }
    open.push({cost, entry->second});
  }

  // Follows one edge, unless its end is too large.
  void take(int64_t index, const Step &step) {
    const Layout current = nodes[index].layout;
    Layout next = applyStep(current, step);
    if (localBytes(mesh, type, next) > cap) {
      return;
    }
    Cost cost = nodes[index].cost;
    reach(next, {cost.first + stepBytes(mesh, step, localBytes(mesh, type, current)), cost.second + 1}, index, step);
  }

  // Follows every edge from a layout.
  void expand(int64_t index) {
    const Layout layout = nodes[index].layout;
    int64_t rank = layout.dims.size();
    AxisList resolve; // partial here, not at the end
    for (StringAttr axis : axes) {
      bool isPartial = llvm::is_contained(layout.partial, axis);
      if (isPartial && llvm::is_contained(to.partial, axis)) {
        continue;
      }
      if (isPartial) {
        resolve.push_back(axis);
      }
      for (int64_t d = 0; d < rank && (isPartial || !layout.uses(axis)); ++d) {
        take(index, {isPartial ? Step::ReduceScatter : Step::Slice, {axis}, d});
      }
    }
    if (!resolve.empty()) {
      take(index, {Step::AllReduce, resolve});
      for (StringAttr axis : resolve) {
        take(index, {Step::AllReduce, {axis}});
      }
    }
    for (int64_t d = 0; d < rank; ++d) {
      ArrayRef<StringAttr> split = layout.dims[d];
      for (size_t count = 1; count <= split.size(); ++count) {
        AxisList moved(split.take_back(count));
        for (int64_t e = 0; e < rank; ++e) {
          if (e != d) {
            take(index, {Step::AllToAll, moved, /*dim=*/e, /*concatDim=*/d});
          }
        }
        take(index, {Step::AllGather, moved, d});
      }
    }
  }

  // Returns the steps that led to a layout; neighbours that one op can do become one.
  SmallVector<Step> trace(int64_t index) const {
    SmallVector<Step> steps;
    for (; nodes[index].previous >= 0; index = nodes[index].previous) {
      steps.push_back(nodes[index].step);
    }
    SmallVector<Step> merged;
    for (const Step &step : llvm::reverse(steps)) {
      bool appends = step.kind == Step::Slice || step.kind == Step::ReduceScatter;
      if (appends && !merged.empty() && merged.back().kind == step.kind && merged.back().dim == step.dim) {
        llvm::append_range(merged.back().axes, step.axes);
      } else {
        merged.push_back(step);
      }
    }
    return merged;
  }

  MeshAttr mesh;
  RankedTensorType type;
  const Layout &from, &to;
  AxisList axes; // that either end uses
  int64_t limit, cap;
  std::vector<Node> nodes;
  std::map<std::string, int64_t> keys;
  using Entry = std::pair<Cost, int64_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> open;
};

} // namespace

SmallVector<Step> planRedistribution(MeshAttr mesh, RankedTensorType type, const Layout &from, const Layout &to) {
  assert(llvm::all_of(to.partial, [&](StringAttr axis) { return llvm::is_contained(from.partial, axis); }) && "target more partial");
  if (from == to) {
    return {};
  }
  Search search(mesh, type, from, to);
  std::optional<SmallVector<Step>> steps = search.run(/*capped=*/true);
  if (!steps) {
    steps = search.run(/*capped=*/false);
  }
  assert(steps && "gather, then slice is always a way");
  return *steps;
}

int64_t redistributionBytes(MeshAttr mesh, RankedTensorType type, const Layout &from, const Layout &to) {
  int64_t bytes = 0;
  Layout layout = withoutUnitAxes(mesh, from);
  for (const Step &step : planRedistribution(mesh, type, layout, withoutUnitAxes(mesh, to))) {
    bytes += stepBytes(mesh, step, localBytes(mesh, type, layout));
    layout = applyStep(layout, step);
  }
  return bytes;
}

} // namespace ashlar::dist
