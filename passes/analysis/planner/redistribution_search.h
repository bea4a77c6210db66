// SPDX-License-Identifier: Apache-2.0
//
// The search behind the planner of redistributions. Up to kExactAxes axes it explores every path; above that there are too many, and it is
// focused.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_SEARCH_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_SEARCH_H

#include "passes/analysis/planner/search_space.h"

#include <optional>
#include <queue>
#include <string>
#include <unordered_map>

namespace ashlar::analysis {

// Dijkstra over layouts. State: for each layout reached the cheapest cost known and the step that led there; `open` orders layouts by cost.
// Invariant: a layout taken from `open` at its known cost is final. O(L E log L) for L layouts of E edges each; three axes and two dims
// give some forty layouts, four axes and four dims some fifteen hundred. Ties go to the edge tried first, so plans are deterministic.
//
// A focused search is for more axes. From a layout it follows O(A D + D^2) edges for A axes and D dims: cuts and sums over the axes that
// the end has in a dim and the axes it has nowhere, gathers and exchanges of every list of minor axes, and two permutes, one that sorts
// each dim as the end does and one that brings the end's axes of a dim from anywhere. Axes that begin a dim at both ends stay. It begins
// with one path to the end (descend), follows layouts nearer to the end first (leastTimePs), prunes by the best path known, and stops after
// kMostExpanded layouts.
//
// To find a plan other than a given one, a node is a layout and the length of the common prefix of its collectives with that plan; a path
// then may not come to a layout twice. That can hide a better one behind a cheaper path to the same node, which is fine for a comparison.
class RedistributionSearch {
public:
  using Kinds = llvm::SmallVector<CollectiveKind>;

  enum Effort { Exhaustive, Focused };

  // A focused search expands no more layouts than this within the memory of the ends, and as many without that limit.
  static constexpr int64_t kMostExpanded = 256;

  RedistributionSearch(const SearchProblem &problem, Effort effort);

  // Returns the cheapest steps on which no device holds more than the larger end, or, where there is no such way, the cheapest of all.
  // `avoided`: not with just these kinds of collectives, slices not counted; nothing when there are no others.
  std::optional<std::vector<SearchStep>> run(const Kinds *avoided = nullptr);

  // Returns the number of layouts whose edges were followed so far, in all runs.
  int64_t countExpanded() const { return expanded; }

private:
  struct Cost {
    int64_t timePs = 0, bytes = 0, steps = 0;
    auto key() const { return std::tie(timePs, bytes, steps); }
    bool operator<(const Cost &other) const { return key() < other.key(); }
    bool operator==(const Cost &other) const { return key() == other.key(); }
  };
  struct Node {
    NumberedLayout layout;
    int64_t localBytes;
    size_t matched; // collectives of the avoided plan that the way began with; one more than all of them: it has left that plan
    Cost cost;
    int64_t previous;
    SearchStep step;
    int64_t leftPs = 0; // that a focused search still has to go at least
  };
  struct Entry {
    Cost cost; // that orders the queue, by throughCost
    int64_t node;
    bool operator<(const Entry &other) const { // for a queue with the cheapest, then the oldest, on top
      return cost == other.cost ? node > other.node : other.cost < cost;
    }
  };

  std::optional<std::vector<SearchStep>> run(int64_t memoryCap, const Kinds *avoided);
  void expand(int64_t node);
  void reduce(int64_t node);
  void reduceOver(int64_t node, uint32_t axes);
  void split(int64_t node, uint32_t axes, CollectiveKind kind);
  void cut(int64_t node, size_t d, const AxisNumbers &list, CollectiveKind kind);
  void move(int64_t node);
  void exchange(int64_t node, size_t d, size_t count, size_t e);
  void gather(int64_t node, size_t d, size_t count);
  void permute(int64_t node, NumberedLayout &next, uint32_t left);
  void permuteTo(int64_t node, const NumberedLayout &next);

  // Edges of a focused search.
  void expandFocused(int64_t node);
  void cutFocused(int64_t node, uint32_t axes, CollectiveKind kind);
  void cutLongest(int64_t node, size_t d, AxisNumbers list, CollectiveKind kind);
  void sortDims(int64_t node);
  void arrange(int64_t node);
  void cutNext(int64_t node);
  void cutUnused(int64_t node);
  void settle(int64_t node);
  void gatherWrong(int64_t node, bool isPlain);
  void descend(bool isPlain);
  AxisNumbers nextAxes(const NumberedLayout &layout, size_t d, uint32_t axes) const;
  void sortLeaving(llvm::MutableArrayRef<uint8_t> axes) const;

  std::optional<Cost> estimate(int64_t node, SearchStep &step) const;
  void take(int64_t node, const Cost &cost, SearchStep step, NumberedLayout next);
  void reach(Node node);

  bool isOnWay(int64_t node, const NumberedLayout &layout) const;
  bool isEnd(const NumberedLayout &layout, size_t matched) const;
  Cost throughCost(const Node &node) const; // of a node and the bound from there; orders the queue
  std::vector<SearchStep> trace(int64_t node) const;

  const SearchProblem &problem;
  const SearchSpace space;
  const Effort effort;
  llvm::SmallVector<size_t> fixed;        // axes that stay at the front, one number a dim
  llvm::SmallVector<int64_t> endPosition; // of each axis among the axes that shard dims at the end; -1: none
  MessageCost fastestPermute;             // as fast in each respect as over any link
  int64_t expanded = 0;
  int64_t cap = 0;
  const Kinds *avoid = nullptr;
  std::optional<Cost> best; // of the ways to the end found so far
  int64_t bestNode = -1;
  int64_t reached = -1; // the node of the layout taken last
  std::vector<Node> nodes;
  std::unordered_map<std::string, int64_t> numberOf;
  std::priority_queue<Entry> open;
};

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_SEARCH_H
