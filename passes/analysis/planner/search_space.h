// SPDX-License-Identifier: Apache-2.0
//
// The data of the search behind the planner: layouts on axes by number, short lists of small numbers, so that thousands of them cost
// little. An axis of the search may be several adjacent ones of the mesh: they are moved as one but cut separately, one after the other.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_SEARCH_SPACE_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_SEARCH_SPACE_H

#include "passes/analysis/planner/redistribution.h"

namespace ashlar::analysis {

// Axes by number, major to minor.
using AxisNumbers = llvm::SmallVector<uint8_t, 4>;

// Up to so many axes every way is looked at.
constexpr size_t kExactAxes = 4;

// The most axes of a search: a set of them is 32 bits, and a shift by one more is still defined.
constexpr size_t kMostAxes = 31;

// A layout on axes by number; the kind of reduction never changes, so it is not here.
struct NumberedLayout {
  llvm::SmallVector<AxisNumbers, 4> dims;
  uint32_t partial = 0; // a bit an axis

  bool operator==(const NumberedLayout &other) const { return dims == other.dims && partial == other.partial; }
};

// One axis of the search.
struct SearchAxis {
  int64_t size;
  Link link;
  llvm::SmallVector<int64_t, 2> parts; // sizes of the mesh's axes that it is, major to minor
};

// One step, as in Step. `after` is the layout it leads to.
struct SearchStep {
  CollectiveKind kind = CollectiveKind::Slice;
  AxisNumbers axes = {};
  int64_t dim = -1, concatDim = -1;
  NumberedLayout after = {};
  int64_t bytes = 0, timePs = 0;
};

// The problem of a search. The ends name no axis of size 1.
struct SearchProblem {
  llvm::SmallVector<int64_t> shape;
  int64_t elementBytes = 1;
  llvm::SmallVector<SearchAxis> axes; // that may serve on the way; at most kMostAxes
  NumberedLayout from, to;
  uint32_t idle = 0; // the axes that neither end uses; permutes leave them where they are
};

// Returns the axes of a set, in rising order.
AxisNumbers listOf(uint32_t axes);

// Returns true when one collective can cut a dim over axes of these sizes, or join its shards: it cuts once, into shards of equal size
// except for the last, and axis by axis has to give the same.
//   8 over {2, 2}: 4 4, 2 2 2 2: true      5 over {2, 2}: 3 2, then 2 1 1 1, but at once 2 2 1 -: false
bool isOneCut(int64_t size, llvm::ArrayRef<int64_t> sizes);

// The layouts of one problem: their sizes, and which of them there may be.
class SearchSpace {
public:
  explicit SearchSpace(const SearchProblem &problem);

  // Returns the bytes that a device holds. Pieces are as large as the largest, each axis rounding up in turn, which is the same as rounding
  // up once.
  int64_t localBytes(const NumberedLayout &layout) const;

  // Returns the product of the sizes of axes.
  int64_t groupSize(llvm::ArrayRef<uint8_t> list) const;

  // Returns false for a layout that splits a dim unevenly which neither end does.
  bool isAllowed(const NumberedLayout &layout) const;

  // Returns true when dim `d`, split over `before`, can be cut further over `list` by one collective.
  bool isOneCut(size_t d, llvm::ArrayRef<uint8_t> before, llvm::ArrayRef<uint8_t> list) const;

  // Returns true when both lists cut dim `d` into the same pieces. Assumes that they cut it into as many.
  bool cutAlike(size_t d, llvm::ArrayRef<uint8_t> a, llvm::ArrayRef<uint8_t> b) const;

  // Returns all axes.
  uint32_t allAxes() const { return (uint64_t(1) << problem.axes.size()) - 1; }

  // Returns the axes that a layout does not use.
  uint32_t unusedAxes(const NumberedLayout &layout) const;

  // Returns the axes of the group of a permute: all but those whose coordinate counts for as many pieces of the same dim before and after.
  AxisNumbers movedAxes(const NumberedLayout &from, const NumberedLayout &to) const;

  // Returns true when the axes divide every dim at both ends.
  bool isEven() const;

  const SearchProblem &problem;

private:
  llvm::SmallVector<int64_t> sizesOf(llvm::ArrayRef<uint8_t> list) const;

  llvm::SmallVector<bool> mayBeUneven; // one a dim
};

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_SEARCH_SPACE_H
