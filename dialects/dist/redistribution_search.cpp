// SPDX-License-Identifier: Apache-2.0
//
// The search behind the planner of redistributions.

#include "dialects/dist/redistribution_search.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::dist {

namespace {

// Up to so many axes every way is looked at.
constexpr size_t kExactAxes = 4;

// Calls `body` with every non-empty list of distinct axes of the set, in order of their first axes.
void forEachList(uint32_t axes, AxisNumbers &list, llvm::function_ref<void(const AxisNumbers &)> body) {
  for (uint8_t axis = 0; axes >> axis != 0; ++axis) {
    if (axes >> axis & 1) {
      list.push_back(axis);
      body(list);
      forEachList(axes & ~(1u << axis), list, body);
      list.pop_back();
    }
  }
}

AxisNumbers listOf(uint32_t axes) {
  AxisNumbers list;
  for (uint8_t axis = 0; axes >> axis != 0; ++axis) {
    if (axes >> axis & 1) {
      list.push_back(axis);
    }
  }
  return list;
}

// Returns a key that differs for different layouts.
std::string keyOf(const NumberedLayout &layout, size_t matched) {
  std::string key;
  for (const AxisNumbers &list : layout.dims) {
    key.append(list.begin(), list.end());
    key.push_back(-1);
  }
  for (uint8_t axis : listOf(layout.partial)) {
    key.push_back(axis);
  }
  key.push_back(-1);
  key += std::to_string(matched);
  return key;
}

// Returns begin and end of the pieces into which the axes of `sizes`, major to minor, cut a dim: each cuts the pieces of those before it,
// rounding up. Pieces of no element are all alike.
//   5, {2, 2} -> [0, 2) [2, 3) [3, 5) none      5, {4} -> [0, 2) [2, 4) [4, 5) none
std::vector<std::pair<int64_t, int64_t>> piecesOf(int64_t size, ArrayRef<int64_t> sizes) {
  std::vector<std::pair<int64_t, int64_t>> pieces = {{0, size}};
  for (int64_t count : sizes) {
    size = llvm::divideCeil(size, count);
    std::vector<std::pair<int64_t, int64_t>> smaller;
    for (auto [begin, end] : pieces) {
      for (int64_t i = 0; i < count; ++i) {
        int64_t first = begin + i * size;
        smaller.push_back(first < end ? std::pair(first, std::min(first + size, end)) : std::pair<int64_t, int64_t>(0, 0));
      }
    }
    pieces = std::move(smaller);
  }
  return pieces;
}

CollectiveKind collectiveOf(Step::Kind kind) {
  switch (kind) {
  case Step::AllReduce:
    return CollectiveKind::AllReduce;
  case Step::ReduceScatter:
    return CollectiveKind::ReduceScatter;
  case Step::AllToAll:
    return CollectiveKind::AllToAll;
  case Step::AllGather:
    return CollectiveKind::AllGather;
  case Step::Permute:
    return CollectiveKind::Permute;
  case Step::Slice:
    break;
  }
  llvm_unreachable("a slice is no collective");
}

} // namespace

RedistributionSearch::RedistributionSearch(const SearchProblem &problem) : problem(problem) {
  for (auto [size, from, to] : llvm::zip_equal(problem.shape, problem.from.dims, problem.to.dims)) {
    mayBeUneven.push_back(size % groupSize(from) != 0 || size % groupSize(to) != 0);
    size_t common = 0;
    while (problem.axes.size() > kExactAxes && common < std::min(from.size(), to.size()) && from[common] == to[common]) {
      ++common;
    }
    fixed.push_back(common);
  }
}

std::optional<std::vector<SearchStep>> RedistributionSearch::run(const Kinds *avoided) {
  auto steps = run(std::max(localBytes(problem.from), localBytes(problem.to)), avoided);
  return steps ? steps : run(std::numeric_limits<int64_t>::max(), avoided);
}

std::optional<std::vector<SearchStep>> RedistributionSearch::run(int64_t memoryCap, const Kinds *avoided) {
  cap = memoryCap;
  avoid = avoided;
  best.reset();
  nodes.clear();
  numberOf.clear();
  open = {};
  reach(problem.from, /*matched=*/0, Cost(), /*previous=*/-1, SearchStep());
  while (!open.empty()) {
    auto [cost, node] = open.top();
    open.pop();
    if (!(cost == nodes[node].cost)) {
      continue; // a cheaper way was found since
    }
    if (isEnd(nodes[node].layout, nodes[node].matched)) {
      return trace(node);
    }
    expand(node);
  }
  return std::nullopt;
}

// Follows every edge from a layout.
void RedistributionSearch::expand(int64_t node) {
  reduce(node);
  split(node, unusedAxes(nodes[node].layout), Step::Slice);
  move(node);
  if (nodes[node].layout.dims.empty()) {
    return;
  }
  NumberedLayout next;
  next.dims.emplace_back();
  next.partial = nodes[node].layout.partial;
  permute(node, next, allAxes() & ~next.partial);
}

// Axes over which the end is partial too are left alone.
void RedistributionSearch::reduce(int64_t node) {
  uint32_t axes = nodes[node].layout.partial & ~problem.to.partial;
  for (uint32_t subset = axes; subset != 0; subset = (subset - 1) & axes) {
    SearchStep step{Step::AllReduce, listOf(subset)};
    step.after = nodes[node].layout;
    step.after.partial &= ~subset;
    take(node, step);
  }
  split(node, axes, Step::ReduceScatter);
}

// Splits a dim over axes that are unused (slice) or partial (reduce-scatter).
void RedistributionSearch::split(int64_t node, uint32_t axes, Step::Kind kind) {
  const NumberedLayout layout = nodes[node].layout;
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    AxisNumbers scratch;
    forEachList(axes, scratch, [&](const AxisNumbers &list) {
      if (!isOneCut(d, layout.dims[d], list)) {
        return;
      }
      SearchStep step{kind, list, static_cast<int64_t>(d)};
      step.after = layout;
      step.after.dims[d].append(list.begin(), list.end());
      for (uint8_t axis : list) {
        step.after.partial &= ~(1u << axis);
      }
      take(node, step);
    });
  }
}

// Takes the minor axes of a dim away (all-gather), or to another dim (all-to-all).
void RedistributionSearch::move(int64_t node) {
  const NumberedLayout layout = nodes[node].layout;
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    for (size_t count = 1; count + fixed[d] <= layout.dims[d].size(); ++count) {
      AxisNumbers moved(ArrayRef<uint8_t>(layout.dims[d]).take_back(count));
      NumberedLayout without = layout;
      without.dims[d].pop_back_n(count);
      if (!isOneCut(d, without.dims[d], moved)) {
        continue;
      }
      for (size_t e = 0; e < layout.dims.size(); ++e) {
        if (e != d && isOneCut(e, without.dims[e], moved)) {
          SearchStep step{Step::AllToAll, moved, /*dim=*/static_cast<int64_t>(e), /*concatDim=*/static_cast<int64_t>(d), without};
          step.after.dims[e].append(moved.begin(), moved.end());
          take(node, step);
        }
      }
      take(node, SearchStep{Step::AllGather, moved, static_cast<int64_t>(d), /*concatDim=*/-1, without});
    }
  }
}

// Follows the permutes to all layouts that begin with `next`, whose last dim may still grow by axes of `left`. A dim keeps its pieces.
void RedistributionSearch::permute(int64_t node, NumberedLayout &next, uint32_t left) {
  size_t d = next.dims.size() - 1, at = next.dims[d].size();
  const AxisNumbers current = nodes[node].layout.dims[d];
  int64_t pieces = groupSize(current), grown = groupSize(next.dims[d]);
  if (grown < pieces) {
    for (uint8_t axis : listOf(left)) {
      int64_t size = problem.axes[axis].size;
      if (at < fixed[d] ? axis == current[at] : pieces % (grown * size) == 0) {
        next.dims[d].push_back(axis);
        permute(node, next, left & ~(1u << axis));
        next.dims[d].pop_back();
      }
    }
  } else if (mayBeUneven[d] && piecesOf(problem.shape[d], sizesOf(next.dims[d])) != piecesOf(problem.shape[d], sizesOf(current))) {
    return;
  } else if (next.dims.size() < problem.shape.size()) {
    next.dims.emplace_back();
    permute(node, next, left);
    next.dims.pop_back();
  } else if (next.dims != nodes[node].layout.dims) {
    take(node, SearchStep{Step::Permute, movedAxes(nodes[node].layout, next), /*dim=*/-1, /*concatDim=*/-1, next});
  }
}

// Follows one edge, unless its end is not allowed.
void RedistributionSearch::take(int64_t node, SearchStep step) {
  if (!isAllowed(step.after) || localBytes(step.after) > cap) {
    return;
  }
  Cost cost = nodes[node].cost;
  size_t matched = nodes[node].matched;
  if (step.kind != Step::Slice) {
    Link link = problem.axes[step.axes.front()].link;
    for (uint8_t axis : step.axes) {
      link = link.worse(problem.axes[axis].link);
    }
    int64_t operandBytes = localBytes(nodes[node].layout), size = groupSize(step.axes);
    step.bytes = collectiveBytes(collectiveOf(step.kind), operandBytes, size);
    step.timePs = collectiveTimePs(collectiveOf(step.kind), operandBytes, size, link);
    if (avoid && matched <= avoid->size()) {
      bool same = matched < avoid->size() && (*avoid)[matched] == step.kind;
      matched = same ? matched + 1 : avoid->size() + 1;
    }
  }
  cost.timePs += step.timePs;
  cost.bytes += step.bytes;
  ++cost.steps;
  NumberedLayout after = step.after;
  reach(std::move(after), matched, cost, node, std::move(step));
}

void RedistributionSearch::reach(NumberedLayout layout, size_t matched, Cost cost, int64_t previous, SearchStep step) {
  if (best && !(cost < *best)) {
    return; // no way through here is better
  }
  auto [entry, isNew] = numberOf.try_emplace(keyOf(layout, matched), nodes.size());
  if (isNew) {
    nodes.push_back({std::move(layout), matched, cost, previous, std::move(step)});
  } else if (cost < nodes[entry->second].cost) {
    Node &node = nodes[entry->second];
    node.cost = cost;
    node.previous = previous;
    node.step = std::move(step);
  } else {
    return;
  }
  if (isEnd(nodes[entry->second].layout, matched)) {
    best = cost;
  }
  open.push({cost, entry->second});
}

bool RedistributionSearch::isEnd(const NumberedLayout &layout, size_t matched) const {
  return layout == problem.to && !(avoid && matched == avoid->size());
}

bool RedistributionSearch::isAllowed(const NumberedLayout &layout) const {
  for (auto [size, list, uneven] : llvm::zip_equal(problem.shape, layout.dims, mayBeUneven)) {
    if (!uneven && size % groupSize(list) != 0) {
      return false;
    }
  }
  return true;
}

// A collective over several axes cuts a dim once, into pieces of equal size but for the last. Where axis by axis gives other pieces, they
// cannot be cut or joined at once.
bool RedistributionSearch::isOneCut(size_t d, ArrayRef<uint8_t> before, ArrayRef<uint8_t> list) const {
  if (!mayBeUneven[d] || list.size() == 1) {
    return true;
  }
  int64_t size = llvm::divideCeil(problem.shape[d], groupSize(before));
  return piecesOf(size, sizesOf(list)) == piecesOf(size, groupSize(list));
}

// Pieces are as large as the largest, each axis rounding up in turn, which is the same as rounding up once.
int64_t RedistributionSearch::localBytes(const NumberedLayout &layout) const {
  int64_t bytes = problem.elementBytes;
  for (auto [size, list] : llvm::zip_equal(problem.shape, layout.dims)) {
    bytes *= llvm::divideCeil(size, groupSize(list));
  }
  return bytes;
}

int64_t RedistributionSearch::groupSize(ArrayRef<uint8_t> list) const {
  int64_t size = 1;
  for (uint8_t axis : list) {
    size *= problem.axes[axis].size;
  }
  return size;
}

SmallVector<int64_t> RedistributionSearch::sizesOf(ArrayRef<uint8_t> list) const {
  return llvm::map_to_vector(list, [&](uint8_t axis) { return problem.axes[axis].size; });
}

uint32_t RedistributionSearch::allAxes() const {
  return (uint64_t(1) << problem.axes.size()) - 1;
}

uint32_t RedistributionSearch::unusedAxes(const NumberedLayout &layout) const {
  uint32_t unused = allAxes() & ~layout.partial;
  for (const AxisNumbers &list : layout.dims) {
    for (uint8_t axis : list) {
      unused &= ~(1u << axis);
    }
  }
  return unused;
}

// Returns the axes of the group of a permute: all but those whose coordinate counts for as many pieces of the same dim before and after.
AxisNumbers RedistributionSearch::movedAxes(const NumberedLayout &from, const NumberedLayout &to) const {
  using Place = std::pair<size_t, int64_t>; // dim, pieces by which one more along the axis goes on
  auto placesOf = [&](const NumberedLayout &layout) {
    SmallVector<Place> places(problem.axes.size(), Place(layout.dims.size(), 0));
    for (auto [d, list] : llvm::enumerate(layout.dims)) {
      int64_t stride = 1;
      for (uint8_t axis : llvm::reverse(list)) {
        places[axis] = {d, stride};
        stride *= problem.axes[axis].size;
      }
    }
    return places;
  };
  SmallVector<Place> before = placesOf(from), after = placesOf(to);
  AxisNumbers moved;
  for (size_t axis = 0; axis < problem.axes.size(); ++axis) {
    if (before[axis] != after[axis]) {
      moved.push_back(axis);
    }
  }
  return moved;
}

std::vector<SearchStep> RedistributionSearch::trace(int64_t node) const {
  std::vector<SearchStep> steps;
  for (; nodes[node].previous >= 0; node = nodes[node].previous) {
    steps.push_back(nodes[node].step);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

} // namespace ashlar::dist
