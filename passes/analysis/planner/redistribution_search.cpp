// SPDX-License-Identifier: Apache-2.0
//
// The search behind the planner of redistributions: the queue, and the edges of an exhaustive search.

#include "passes/analysis/planner/redistribution_search.h"

#include "passes/analysis/planner/redistribution_bound.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::analysis {

namespace {

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

} // namespace

RedistributionSearch::RedistributionSearch(const SearchProblem &problem, Effort effort) : problem(problem), space(problem), effort(effort) {
  for (auto [from, to] : llvm::zip_equal(problem.from.dims, problem.to.dims)) {
    size_t common = 0;
    while (effort == Focused && common < std::min(from.size(), to.size()) && from[common] == to[common]) {
      ++common;
    }
    fixed.push_back(common);
  }
  endPosition.assign(problem.axes.size(), -1);
  int64_t position = 0;
  for (const AxisNumbers &list : problem.to.dims) {
    for (uint8_t axis : list) {
      endPosition[axis] = position++;
    }
  }
  for (auto [number, axis] : llvm::enumerate(problem.axes)) {
    const MessageCost permute = axis.link.of(CollectiveKind::Permute);
    fastestPermute = number == 0 ? permute : fastestPermute.better(permute);
  }
}

std::optional<std::vector<SearchStep>> RedistributionSearch::run(const Kinds *avoided) {
  auto steps = run(std::max(space.localBytes(problem.from), space.localBytes(problem.to)), avoided);
  return steps ? steps : run(std::numeric_limits<int64_t>::max(), avoided);
}

std::optional<std::vector<SearchStep>> RedistributionSearch::run(int64_t memoryCap, const Kinds *avoided) {
  cap = memoryCap;
  avoid = avoided;
  best.reset();
  bestNode = -1;
  nodes.clear();
  numberOf.clear();
  open = {};
  int64_t last = effort == Focused ? expanded + kMostExpanded : std::numeric_limits<int64_t>::max();
  reach({problem.from, space.localBytes(problem.from), /*matched=*/0, Cost(), /*previous=*/-1, SearchStep()});
  if (effort == Focused) {
    descend(/*isPlain=*/false);
    descend(/*isPlain=*/true);
  }
  while (!open.empty() && expanded < last) {
    auto [cost, node] = open.top();
    open.pop();
    if (!(cost == throughCost(nodes[node]))) {
      continue; // a cheaper way was found since
    }
    if (effort == Exhaustive && node == bestNode) {
      break;
    }
    if (best && nodes[node].cost.timePs + nodes[node].leftPs > best->timePs) {
      continue; // whatever follows
    }
    ++expanded;
    effort == Focused ? expandFocused(node) : expand(node);
  }
  return bestNode >= 0 ? std::optional(trace(bestNode)) : std::nullopt;
}

// Follows every edge from a layout.
void RedistributionSearch::expand(int64_t node) {
  reduce(node);
  split(node, space.unusedAxes(nodes[node].layout), CollectiveKind::Slice);
  move(node);
  int64_t least = nodes[node].cost.timePs + messageTimePs(/*messages=*/1, nodes[node].localBytes, fastestPermute);
  if (problem.shape.empty() || (best && least > best->timePs)) {
    return; // the many permutes are not worth a look
  }
  NumberedLayout next;
  next.dims.emplace_back();
  next.partial = nodes[node].layout.partial;
  permute(node, next, space.allAxes() & ~next.partial);
}

// Axes over which the end is partial too are left alone.
void RedistributionSearch::reduce(int64_t node) {
  uint32_t axes = nodes[node].layout.partial & ~problem.to.partial;
  for (uint32_t subset = axes; subset != 0; subset = (subset - 1) & axes) {
    reduceOver(node, subset);
  }
  split(node, axes, CollectiveKind::ReduceScatter);
}

void RedistributionSearch::reduceOver(int64_t node, uint32_t axes) {
  SearchStep step{CollectiveKind::AllReduce, listOf(axes)};
  if (std::optional<Cost> cost = estimate(node, step)) {
    NumberedLayout next = nodes[node].layout;
    next.partial &= ~axes;
    take(node, *cost, std::move(step), std::move(next));
  }
}

// Splits a dim over axes that are unused (slice) or partial (reduce-scatter).
void RedistributionSearch::split(int64_t node, uint32_t axes, CollectiveKind kind) {
  AxisNumbers scratch;
  forEachList(axes, scratch, [&](const AxisNumbers &list) {
    for (size_t d = 0; d < problem.shape.size(); ++d) {
      cut(node, d, list, kind);
    }
  });
}

void RedistributionSearch::cut(int64_t node, size_t d, const AxisNumbers &list, CollectiveKind kind) {
  SearchStep step{kind, list, static_cast<int64_t>(d)};
  std::optional<Cost> cost = estimate(node, step);
  if (!cost || !space.isOneCut(d, nodes[node].layout.dims[d], list)) {
    return;
  }
  NumberedLayout next = nodes[node].layout;
  next.dims[d].append(list.begin(), list.end());
  for (uint8_t axis : list) {
    next.partial &= ~(1u << axis);
  }
  take(node, *cost, std::move(step), std::move(next));
}

// Takes the minor axes of a dim away (all-gather), or to another dim (all-to-all).
void RedistributionSearch::move(int64_t node) {
  for (size_t d = 0; d < problem.shape.size(); ++d) {
    for (size_t count = 1; count + fixed[d] <= nodes[node].layout.dims[d].size(); ++count) {
      for (size_t e = 0; e < problem.shape.size(); ++e) {
        exchange(node, d, count, e);
      }
      gather(node, d, count);
    }
  }
}

// Takes `count` axes of dim `d` to dim `e`.
void RedistributionSearch::exchange(int64_t node, size_t d, size_t count, size_t e) {
  if (d == e) {
    return;
  }
  NumberedLayout next = nodes[node].layout;
  AxisNumbers moved(ArrayRef<uint8_t>(next.dims[d]).take_back(count));
  next.dims[d].pop_back_n(count);
  SearchStep step{CollectiveKind::AllToAll, moved, static_cast<int64_t>(e), static_cast<int64_t>(d)};
  std::optional<Cost> cost = estimate(node, step);
  if (cost && space.isOneCut(d, next.dims[d], moved) && space.isOneCut(e, next.dims[e], moved)) {
    next.dims[e].append(moved.begin(), moved.end());
    take(node, *cost, std::move(step), std::move(next));
  }
}

void RedistributionSearch::gather(int64_t node, size_t d, size_t count) {
  NumberedLayout without = nodes[node].layout;
  AxisNumbers moved(ArrayRef<uint8_t>(without.dims[d]).take_back(count));
  without.dims[d].pop_back_n(count);
  SearchStep step{CollectiveKind::AllGather, moved, static_cast<int64_t>(d)};
  std::optional<Cost> cost = space.isOneCut(d, without.dims[d], moved) ? estimate(node, step) : std::nullopt;
  if (cost) {
    take(node, *cost, std::move(step), std::move(without));
  }
}

// Follows the permutes to all layouts that begin with `next`, whose last dim may still grow by axes of `left`. A dim keeps its pieces.
void RedistributionSearch::permute(int64_t node, NumberedLayout &next, uint32_t left) {
  size_t d = next.dims.size() - 1;
  const AxisNumbers current = nodes[node].layout.dims[d];
  int64_t pieces = space.groupSize(current), grown = space.groupSize(next.dims[d]);
  if (grown < pieces) {
    for (uint8_t axis : listOf(left)) {
      int64_t size = problem.axes[axis].size;
      bool mayStand = !(problem.idle >> axis & 1) || llvm::is_contained(current, axis);
      if (mayStand && pieces % (grown * size) == 0) {
        next.dims[d].push_back(axis);
        permute(node, next, left & ~(1u << axis));
        next.dims[d].pop_back();
      }
    }
  } else if (!space.cutAlike(d, next.dims[d], current)) {
    return;
  } else if (next.dims.size() < problem.shape.size()) {
    next.dims.emplace_back();
    permute(node, next, left);
    next.dims.pop_back();
  } else if (next.dims != nodes[node].layout.dims) {
    permuteTo(node, next);
  }
}

// Idle axes stay where they are.
void RedistributionSearch::permuteTo(int64_t node, const NumberedLayout &next) {
  SearchStep step{CollectiveKind::Permute, space.movedAxes(nodes[node].layout, next)};
  bool movesIdle = llvm::any_of(step.axes, [&](uint8_t axis) { return problem.idle >> axis & 1; });
  std::optional<Cost> cost = movesIdle ? std::nullopt : estimate(node, step);
  if (cost) {
    take(node, *cost, std::move(step), next);
  }
}

// Enters into `step` what it costs from a layout, and returns the cost of the way so far; nothing when a way to the end is known that is
// not slower.
std::optional<RedistributionSearch::Cost> RedistributionSearch::estimate(int64_t node, SearchStep &step) const {
  if (step.kind != CollectiveKind::Slice) {
    Link link = problem.axes[step.axes.front()].link;
    for (uint8_t axis : step.axes) {
      link = link.worse(problem.axes[axis].link);
    }
    int64_t size = space.groupSize(step.axes);
    step.bytes = dist::collectiveBytes(step.kind, nodes[node].localBytes, size);
    step.timePs = collectiveTimePs(step.kind, nodes[node].localBytes, size, link);
  }
  const Cost &before = nodes[node].cost;
  Cost cost{before.timePs + step.timePs, before.bytes + step.bytes, before.steps + 1};
  return best && !(cost < *best) ? std::nullopt : std::optional<Cost>(cost);
}

// Follows one edge, unless its end is not allowed.
void RedistributionSearch::take(int64_t node, const Cost &cost, SearchStep step, NumberedLayout next) {
  int64_t bytes = space.localBytes(next);
  if (bytes > cap || !space.isAllowed(next) || (avoid && isOnWay(node, next))) {
    return;
  }
  size_t matched = nodes[node].matched;
  if (avoid && step.kind != CollectiveKind::Slice && matched <= avoid->size()) {
    bool same = matched < avoid->size() && (*avoid)[matched] == step.kind;
    matched = same ? matched + 1 : avoid->size() + 1;
  }
  reach({std::move(next), bytes, matched, cost, node, std::move(step)});
}

void RedistributionSearch::reach(Node node) {
  auto [entry, isNew] = numberOf.try_emplace(keyOf(node.layout, node.matched), nodes.size());
  reached = entry->second;
  if (!isNew && !(node.cost < nodes[entry->second].cost)) {
    return;
  }
  if (effort == Focused) {
    node.leftPs = isNew ? leastTimePs(space, node.layout) : nodes[entry->second].leftPs;
  }
  if (isEnd(node.layout, node.matched)) {
    best = node.cost;
    bestNode = entry->second;
  }
  open.push({throughCost(node), entry->second});
  if (isNew) {
    nodes.push_back(std::move(node));
  } else {
    nodes[entry->second] = std::move(node);
  }
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

RedistributionSearch::Cost RedistributionSearch::throughCost(const Node &node) const {
  constexpr int64_t kGreed = 2; // what leads nearer to the end goes first: it is found with fewer layouts, and then bounds the rest
  return {node.cost.timePs + kGreed * node.leftPs, node.cost.bytes, node.cost.steps};
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

} // namespace ashlar::analysis
