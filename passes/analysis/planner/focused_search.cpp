// SPDX-License-Identifier: Apache-2.0
//
// The edges of a focused search. Each leads nearer to the end in some dim, or is one of the few that an end in another order needs; how
// many there are grows with the axes, not with their orders.

#include "passes/analysis/planner/redistribution_search.h"

using namespace mlir;

namespace ashlar::analysis {

namespace {

// Returns the axes of `list` that are in the set, in its order.
AxisNumbers select(ArrayRef<uint8_t> list, uint32_t axes) {
  return AxisNumbers(llvm::make_filter_range(list, [&](uint8_t axis) { return axes >> axis & 1; }));
}

uint32_t setOf(const SmallVector<AxisNumbers, 4> &dims) {
  uint32_t axes = 0;
  for (const AxisNumbers &list : dims) {
    for (uint8_t axis : list) {
      axes |= 1u << axis;
    }
  }
  return axes;
}

} // namespace

void RedistributionSearch::expandFocused(int64_t node) {
  uint32_t summed = nodes[node].layout.partial & ~problem.to.partial;
  if (summed != 0) {
    reduceOver(node, summed);
    // Fast links are not to wait for slow ones.
    for (uint8_t first : listOf(summed)) {
      uint32_t alike = 0;
      for (uint8_t axis : listOf(summed)) {
        alike |= problem.axes[axis].link == problem.axes[first].link ? 1u << axis : 0;
      }
      if (alike != summed && listOf(alike).front() == first) {
        reduceOver(node, alike);
        cutFocused(node, alike, CollectiveKind::ReduceScatter);
      }
    }
    cutFocused(node, summed, CollectiveKind::ReduceScatter);
  }
  cutFocused(node, space.unusedAxes(nodes[node].layout), CollectiveKind::Slice);
  move(node);
  sortDims(node);
  arrange(node);
}

// Returns the axes of a set that the end has next in a dim; none unless the dim begins as the end does.
AxisNumbers RedistributionSearch::nextAxes(const NumberedLayout &layout, size_t d, uint32_t axes) const {
  ArrayRef<uint8_t> end = problem.to.dims[d], current = layout.dims[d];
  if (end.size() < current.size() || end.take_front(current.size()) != current) {
    return {};
  }
  end = end.drop_front(current.size());
  return AxisNumbers(end.begin(), llvm::find_if(end, [&](uint8_t axis) { return !(axes >> axis & 1); }));
}

// Splits each dim over axes of a set: those that the end has next there, those that it has in some dim, and those that it has nowhere.
void RedistributionSearch::cutFocused(int64_t node, uint32_t axes, CollectiveKind kind) {
  SmallVector<AxisNumbers> lists;
  for (const AxisNumbers &end : problem.to.dims) {
    lists.push_back(select(end, axes));
  }
  lists.push_back(listOf(axes & ~setOf(problem.to.dims)));
  for (size_t d = 0; d < problem.shape.size(); ++d) {
    AxisNumbers next = nextAxes(nodes[node].layout, d, axes);
    cutLongest(node, d, next, kind);
    for (const AxisNumbers &list : lists) {
      if (list != next) {
        cutLongest(node, d, list, kind);
      }
    }
  }
}

// Splits a dim over as many axes of the list as it takes.
void RedistributionSearch::cutLongest(int64_t node, size_t d, AxisNumbers list, CollectiveKind kind) {
  const NumberedLayout current = nodes[node].layout;
  auto mayCut = [&] {
    NumberedLayout next = current;
    llvm::append_range(next.dims[d], list);
    return space.isAllowed(next) && space.isOneCut(d, current.dims[d], list);
  };
  while (!list.empty() && !mayCut()) {
    list.pop_back();
  }
  if (!list.empty()) {
    cut(node, d, list, kind);
  }
}

// Sorts axes behind those that stay in a dim: first what the end has nowhere, then what it has elsewhere, in its order. So the latter go
// first, and what is gathered is gathered last.
void RedistributionSearch::sortLeaving(MutableArrayRef<uint8_t> axes) const {
  AxisNumbers sorted(llvm::make_filter_range(axes, [&](uint8_t axis) { return endPosition[axis] < 0; }));
  for (const AxisNumbers &list : problem.to.dims) {
    llvm::append_range(sorted, select(list, setOf({AxisNumbers(axes)})));
  }
  llvm::copy(sorted, axes.begin());
}

// Permutes so that in each dim those axes that the end has there come first, in its order.
void RedistributionSearch::sortDims(int64_t node) {
  NumberedLayout next = nodes[node].layout;
  for (auto [d, list] : llvm::enumerate(next.dims)) {
    const AxisNumbers &end = problem.to.dims[d];
    AxisNumbers sorted = select(end, setOf({list}));
    size_t staying = sorted.size();
    llvm::copy_if(list, std::back_inserter(sorted), [&](uint8_t axis) { return !llvm::is_contained(end, axis); });
    sortLeaving(MutableArrayRef(sorted).drop_front(staying));
    if (!space.cutAlike(d, sorted, list)) {
      return;
    }
    list = sorted;
  }
  if (!(next == nodes[node].layout)) {
    permuteTo(node, next);
  }
}

// Permutes so that each dim begins as the end does, with axes from anywhere, as far as its number of pieces allows. Then come axes that it
// has now, then any others.
void RedistributionSearch::arrange(int64_t node) {
  const NumberedLayout current = nodes[node].layout;
  uint32_t left = space.allAxes() & ~current.partial & ~problem.idle;
  NumberedLayout next = current;
  SmallVector<int64_t> pieces; // still to be made
  for (auto [d, list] : llvm::enumerate(next.dims)) {
    pieces.push_back(space.groupSize(list));
    list.clear();
  }
  auto fill = [&](size_t d, ArrayRef<uint8_t> axes, bool inTurn) {
    for (uint8_t axis : axes) {
      bool fits = (left >> axis & 1) && pieces[d] % problem.axes[axis].size == 0;
      if (!fits && inTurn) {
        return;
      }
      if (fits) {
        pieces[d] /= problem.axes[axis].size;
        left &= ~(1u << axis);
        next.dims[d].push_back(axis);
      }
    }
  };
  SmallVector<size_t> staying;
  for (auto [d, list] : llvm::enumerate(next.dims)) {
    fill(d, problem.to.dims[d], /*inTurn=*/true);
    staying.push_back(list.size());
  }
  for (size_t d = 0; d < pieces.size(); ++d) {
    fill(d, current.dims[d], /*inTurn=*/false);
  }
  for (size_t d = 0; d < pieces.size(); ++d) {
    fill(d, listOf(left), /*inTurn=*/false);
    sortLeaving(MutableArrayRef(next.dims[d]).drop_front(staying[d]));
    if (pieces[d] != 1 || !space.cutAlike(d, next.dims[d], current.dims[d])) {
      return;
    }
  }
  if (!(next == current)) {
    permuteTo(node, next);
  }
}

// Cuts a dim over the axes that the end has next there.
void RedistributionSearch::cutNext(int64_t node) {
  for (size_t d = 0; d < problem.shape.size(); ++d) {
    if (cutLongest(node, d, nextAxes(nodes[node].layout, d, space.unusedAxes(nodes[node].layout)), CollectiveKind::Slice); reached >= 0) {
      return;
    }
  }
}

// Cuts a dim over unused axes that the end has: over the next ones there, else over some that come later in it, else in another dim.
void RedistributionSearch::cutUnused(int64_t node) {
  const NumberedLayout current = nodes[node].layout;
  uint32_t unused = space.unusedAxes(current);
  SmallVector<std::pair<size_t, AxisNumbers>> cuts;
  for (size_t d = 0; d < current.dims.size(); ++d) {
    cuts.emplace_back(d, nextAxes(current, d, unused));
  }
  for (size_t shift = 0; shift < current.dims.size(); ++shift) {
    for (size_t d = 0; d < current.dims.size(); ++d) {
      cuts.emplace_back((d + shift) % current.dims.size(), select(problem.to.dims[d], unused));
    }
  }
  for (const auto &[d, list] : cuts) {
    cutLongest(node, d, list, CollectiveKind::Slice);
    if (reached >= 0) {
      return;
    }
  }
}

// Takes minor axes to where the end has them next, else takes those away that it has nowhere.
void RedistributionSearch::settle(int64_t node) {
  const NumberedLayout current = nodes[node].layout;
  for (auto [d, list] : llvm::enumerate(current.dims)) {
    for (size_t count = list.size() - fixed[d]; count > 0; --count) {
      uint32_t moved = setOf({AxisNumbers(ArrayRef(list).take_back(count))});
      for (size_t e = 0; e < current.dims.size(); ++e) {
        if (e != d && ArrayRef(list).take_back(count) == ArrayRef(nextAxes(current, e, moved))) {
          return exchange(node, d, count, e);
        }
      }
    }
  }
  for (auto [d, list] : llvm::enumerate(current.dims)) {
    size_t count = 0;
    while (count + fixed[d] < list.size() && endPosition[list[list.size() - 1 - count]] < 0) {
      ++count;
    }
    if (count > 0) {
      return gather(node, d, count);
    }
  }
}

// Gathers minor axes of one dim that does not begin as the end does.
void RedistributionSearch::gatherWrong(int64_t node, bool isPlain) {
  const NumberedLayout current = nodes[node].layout;
  SmallVector<std::tuple<int64_t, size_t, size_t>> gathers; // growth, dim, axes
  for (auto [d, list] : llvm::enumerate(current.dims)) {
    const AxisNumbers &end = problem.to.dims[d];
    size_t wrong = list.end() - std::mismatch(list.begin(), list.end(), end.begin(), end.end()).first;
    for (size_t count = 1; count <= wrong; ++count) {
      int64_t growth = space.groupSize(ArrayRef(list).take_back(count));
      gathers.emplace_back(isPlain ? -growth : growth, d, count);
    }
  }
  llvm::sort(gathers);
  for (auto [growth, d, count] : gathers) {
    if (gather(node, d, count); reached >= 0) {
      return;
    }
  }
}

// Goes one way to the end step by step, so that there is one: sums, cuts over all that the end has, one permute, exchanges, and gathers
// last. Axes of different sizes or short dims may forbid that; what is wrong is then gathered little by little. Where that leads nowhere
// (`isPlain`), all is gathered and cut again. The memory of the ends may forbid both.
void RedistributionSearch::descend(bool isPlain) {
  int64_t node = 0;
  auto follow = [&](auto edges) { // true when it led on; to where the way has not been, unless it is the plain one
    size_t known = nodes.size();
    reached = -1;
    edges();
    if (reached < 0 || (!isPlain && nodes.size() == known)) {
      return false;
    }
    node = reached;
    return true;
  };
  if (uint32_t summed = problem.from.partial & ~problem.to.partial) {
    follow([&] { reduceOver(node, summed); });
  }
  while (!isPlain && follow([&] { cutUnused(node); })) {
  }
  bool leads = true;
  for (size_t steps = 4 * kMostAxes; leads && steps > 0 && !isEnd(nodes[node].layout, nodes[node].matched); --steps) {
    if (isPlain) {
      leads = follow([&] { gatherWrong(node, isPlain); }) || follow([&] { cutNext(node); });
    } else {
      leads = follow([&] { cutNext(node); }) || follow([&] { arrange(node); }) || follow([&] { settle(node); }) ||
              follow([&] { sortDims(node); }) || follow([&] { gatherWrong(node, isPlain); });
    }
  }
}

} // namespace ashlar::analysis
