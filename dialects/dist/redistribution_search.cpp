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
  fastest = problem.axes.empty() ? Link() : problem.axes.front().link;
  for (const SearchAxis &axis : problem.axes) {
    fastest = {std::min(fastest.latencyNs, axis.link.latencyNs), std::max(fastest.bytesPerUs, axis.link.bytesPerUs)};
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
  reach({problem.from, localBytes(problem.from), /*matched=*/0, Cost(), /*previous=*/-1, SearchStep()});
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
  int64_t least = nodes[node].cost.timePs + collectiveTimePs(CollectiveKind::Permute, nodes[node].localBytes, /*groupSize=*/2, fastest);
  if (problem.shape.empty() || (best && least > best->timePs)) {
    return; // the many permutes are not worth a look
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
    if (std::optional<Cost> cost = price(node, step)) {
      NumberedLayout next = nodes[node].layout;
      next.partial &= ~subset;
      take(node, *cost, std::move(step), std::move(next));
    }
  }
  split(node, axes, Step::ReduceScatter);
}

// Splits a dim over axes that are unused (slice) or partial (reduce-scatter).
void RedistributionSearch::split(int64_t node, uint32_t axes, Step::Kind kind) {
  AxisNumbers scratch;
  forEachList(axes, scratch, [&](const AxisNumbers &list) {
    SearchStep step{kind, list};
    std::optional<Cost> cost = price(node, step);
    for (size_t d = 0; cost && d < problem.shape.size(); ++d) {
      NumberedLayout next = nodes[node].layout;
      if (isOneCut(d, next.dims[d], list)) {
        step.dim = d;
        next.dims[d].append(list.begin(), list.end());
        for (uint8_t axis : list) {
          next.partial &= ~(1u << axis);
        }
        take(node, *cost, step, std::move(next));
      }
    }
  });
}

// Takes the minor axes of a dim away (all-gather), or to another dim (all-to-all).
void RedistributionSearch::move(int64_t node) {
  for (size_t d = 0; d < problem.shape.size(); ++d) {
    for (size_t count = 1; count + fixed[d] <= nodes[node].layout.dims[d].size(); ++count) {
      NumberedLayout without = nodes[node].layout;
      AxisNumbers moved(ArrayRef<uint8_t>(without.dims[d]).take_back(count));
      without.dims[d].pop_back_n(count);
      if (!isOneCut(d, without.dims[d], moved)) {
        continue;
      }
      SearchStep exchange{Step::AllToAll, moved, /*dim=*/-1, /*concatDim=*/static_cast<int64_t>(d)};
      std::optional<Cost> cost = price(node, exchange);
      for (size_t e = 0; cost && e < problem.shape.size(); ++e) {
        if (e != d && isOneCut(e, without.dims[e], moved)) {
          exchange.dim = e;
          NumberedLayout next = without;
          next.dims[e].append(moved.begin(), moved.end());
          take(node, *cost, exchange, std::move(next));
        }
      }
      SearchStep gather{Step::AllGather, moved, static_cast<int64_t>(d)};
      if (std::optional<Cost> gatherCost = price(node, gather)) {
        take(node, *gatherCost, std::move(gather), std::move(without));
      }
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
      bool mayStand = at < fixed[d] ? axis == current[at] : !(problem.idle >> axis & 1) || llvm::is_contained(current, axis);
      if (mayStand && pieces % (grown * size) == 0) {
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
    SearchStep step{Step::Permute, movedAxes(nodes[node].layout, next)};
    bool movesIdle = llvm::any_of(step.axes, [&](uint8_t axis) { return problem.idle >> axis & 1; });
    std::optional<Cost> cost = movesIdle ? std::nullopt : price(node, step);
    if (cost) {
      take(node, *cost, std::move(step), next);
    }
  }
}

// Enters into `step` what it costs from a layout, and returns the cost of the way so far; nothing when a way to the end is known that is
// not slower.
std::optional<RedistributionSearch::Cost> RedistributionSearch::price(int64_t node, SearchStep &step) const {
  if (step.kind != Step::Slice) {
    Link link = problem.axes[step.axes.front()].link;
    for (uint8_t axis : step.axes) {
      link = link.worse(problem.axes[axis].link);
    }
    int64_t size = groupSize(step.axes);
    step.bytes = collectiveBytes(collectiveOf(step.kind), nodes[node].localBytes, size);
    step.timePs = collectiveTimePs(collectiveOf(step.kind), nodes[node].localBytes, size, link);
  }
  const Cost &before = nodes[node].cost;
  Cost cost{before.timePs + step.timePs, before.bytes + step.bytes, before.steps + 1};
  return best && !(cost < *best) ? std::nullopt : std::optional<Cost>(cost);
}

// Follows one edge, unless its end is not allowed.
void RedistributionSearch::take(int64_t node, const Cost &cost, SearchStep step, NumberedLayout next) {
  int64_t bytes = localBytes(next);
  if (bytes > cap || !isAllowed(next) || (avoid && isOnWay(node, next))) {
    return;
  }
  size_t matched = nodes[node].matched;
  if (avoid && step.kind != Step::Slice && matched <= avoid->size()) {
    bool same = matched < avoid->size() && (*avoid)[matched] == step.kind;
    matched = same ? matched + 1 : avoid->size() + 1;
  }
  reach({std::move(next), bytes, matched, cost, node, std::move(step)});
}

void RedistributionSearch::reach(Node node) {
  Cost cost = node.cost;
  auto [entry, isNew] = numberOf.try_emplace(keyOf(node.layout, node.matched), nodes.size());
  if (!isNew && !(cost < nodes[entry->second].cost)) {
    return;
  }
  if (isEnd(node.layout, node.matched)) {
    best = cost;
  }
  if (isNew) {
    nodes.push_back(std::move(node));
  } else {
    nodes[entry->second] = std::move(node);
  }
  open.push({cost, entry->second});
}

bool RedistributionSearch::isOnWay(int64_t node, const NumberedLayout &layout) const {
  for (; node >= 0; node = nodes[node].previous) {
    if (nodes[node].layout == layout) {
      return true;
    }
  }
  return false;
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
    steps.back().after = nodes[node].layout;
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

} // namespace ashlar::dist
