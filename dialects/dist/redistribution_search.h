// SPDX-License-Identifier: Apache-2.0
//
// The search behind the planner of redistributions, on axes by number: layouts are short lists of small numbers, so that thousands of
// them cost little.

#ifndef ASHLAR_DIALECTS_DIST_REDISTRIBUTION_SEARCH_H
#define ASHLAR_DIALECTS_DIST_REDISTRIBUTION_SEARCH_H

#include "dialects/dist/redistribution.h"

#include <optional>
#include <queue>
#include <string>
#include <unordered_map>

namespace ashlar::dist {

// Axes by number, major to minor.
using AxisNumbers = llvm::SmallVector<uint8_t, 4>;

// A layout on axes by number; the kind of reduction never changes, so it is not here.
struct NumberedLayout {
  llvm::SmallVector<AxisNumbers, 4> dims;
  uint32_t partial = 0; // a bit an axis

  bool operator==(const NumberedLayout &other) const { return dims == other.dims && partial == other.partial; }
};

struct SearchAxis {
  int64_t size;
  Link link;
};

// One step, as in Step. `after` is the layout it leads to.
struct SearchStep {
  Step::Kind kind = Step::Slice;
  AxisNumbers axes = {};
  int64_t dim = -1, concatDim = -1;
  NumberedLayout after = {};
  int64_t bytes = 0, timePs = 0;
};

// What to search a way for. The ends name no axis of size 1.
struct SearchProblem {
  llvm::ArrayRef<int64_t> shape;
  int64_t elementBytes;
  llvm::SmallVector<SearchAxis> axes; // that may serve on the way; at most 32
  NumberedLayout from, to;
  uint32_t idle = 0; // the axes that neither end uses; permutes leave them where they are
};

// Dijkstra over layouts. State: for each layout reached the cheapest cost known and the step that led there; `open` orders layouts by cost.
// Invariant: a layout taken from `open` at its known cost is final. O(L E log L) for L layouts of E edges each; three axes and two dims
// give some forty layouts, four axes and four dims some fifteen hundred. Ties go to the edge tried first, so plans are the same on every
// run.
//
// To find a plan other than a given one, a node is a layout and how far the collectives on the way to it are those of that plan; a way then
// may not come to a layout twice. That can hide a better one behind a cheaper way to the same node, which is fine for a comparison.
class RedistributionSearch {
public:
  using Kinds = llvm::SmallVector<Step::Kind>;

  explicit RedistributionSearch(const SearchProblem &problem);

  // Returns the cheapest steps on which no device holds more than the larger end, or, where there is no such way, the cheapest of all.
  // `avoided`: not with just these kinds of collectives, slices not counted; nothing when there are no others.
  std::optional<std::vector<SearchStep>> run(const Kinds *avoided = nullptr);

  // Returns the bytes that a device holds.
  int64_t localBytes(const NumberedLayout &layout) const;

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
  };
  struct Entry {
    Cost cost;
    int64_t node;
    bool operator<(const Entry &other) const { // for a queue with the cheapest, then the oldest, on top
      return cost == other.cost ? node > other.node : other.cost < cost;
    }
  };

  std::optional<std::vector<SearchStep>> run(int64_t memoryCap, const Kinds *avoided);
  void expand(int64_t node);
  void reduce(int64_t node);
  void split(int64_t node, uint32_t axes, Step::Kind kind);
  void move(int64_t node);
  void permute(int64_t node, NumberedLayout &next, uint32_t left);
  std::optional<Cost> price(int64_t node, SearchStep &step) const;
  void take(int64_t node, const Cost &cost, SearchStep step, NumberedLayout next);
  void reach(Node node);

  bool isOnWay(int64_t node, const NumberedLayout &layout) const;
  bool isEnd(const NumberedLayout &layout, size_t matched) const;
  bool isAllowed(const NumberedLayout &layout) const;
  bool isOneCut(size_t d, llvm::ArrayRef<uint8_t> before, llvm::ArrayRef<uint8_t> list) const;
  llvm::SmallVector<int64_t> sizesOf(llvm::ArrayRef<uint8_t> list) const;
  int64_t groupSize(llvm::ArrayRef<uint8_t> list) const;
  uint32_t allAxes() const;
  uint32_t unusedAxes(const NumberedLayout &layout) const;
  AxisNumbers movedAxes(const NumberedLayout &from, const NumberedLayout &to) const;
  std::vector<SearchStep> trace(int64_t node) const;

  const SearchProblem &problem;
  llvm::SmallVector<bool> mayBeUneven; // one a dim
  llvm::SmallVector<size_t> fixed;     // axes that stay at the front, one number a dim
  Link fastest;                        // as fast in each respect as any
  int64_t cap = 0;
  const Kinds *avoid = nullptr;
  std::optional<Cost> best; // of the ways to the end found so far
  std::vector<Node> nodes;
  std::unordered_map<std::string, int64_t> numberOf;
  std::priority_queue<Entry> open;
};

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_REDISTRIBUTION_SEARCH_H
