// SPDX-License-Identifier: Apache-2.0
//
// Sizes and pieces of layouts on axes by number.

#include "passes/analysis/planner/search_space.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::analysis {

namespace {

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

} // namespace

AxisNumbers listOf(uint32_t axes) {
  AxisNumbers list;
  for (uint8_t axis = 0; axes >> axis != 0; ++axis) {
    if (axes >> axis & 1) {
      list.push_back(axis);
    }
  }
  return list;
}

bool isOneCut(int64_t size, ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t factor : sizes) {
    count *= factor;
  }
  return sizes.size() <= 1 || size % count == 0 || piecesOf(size, sizes) == piecesOf(size, count);
}

SearchSpace::SearchSpace(const SearchProblem &problem) : problem(problem) {
  for (auto [size, from, to] : llvm::zip_equal(problem.shape, problem.from.dims, problem.to.dims)) {
    mayBeUneven.push_back(size % groupSize(from) != 0 || size % groupSize(to) != 0);
  }
}

int64_t SearchSpace::localBytes(const NumberedLayout &layout) const {
  int64_t bytes = problem.elementBytes;
  for (auto [size, list] : llvm::zip_equal(problem.shape, layout.dims)) {
    bytes *= llvm::divideCeil(size, groupSize(list));
  }
  return bytes;
}

int64_t SearchSpace::groupSize(ArrayRef<uint8_t> list) const {
  int64_t size = 1;
  for (uint8_t axis : list) {
    size *= problem.axes[axis].size;
  }
  return size;
}

bool SearchSpace::isAllowed(const NumberedLayout &layout) const {
  for (auto [size, list, uneven] : llvm::zip_equal(problem.shape, layout.dims, mayBeUneven)) {
    if (!uneven && size % groupSize(list) != 0) {
      return false;
    }
  }
  return true;
}

bool SearchSpace::isOneCut(size_t d, ArrayRef<uint8_t> before, ArrayRef<uint8_t> list) const {
  return !mayBeUneven[d] || analysis::isOneCut(llvm::divideCeil(problem.shape[d], groupSize(before)), sizesOf(list));
}

bool SearchSpace::cutAlike(size_t d, ArrayRef<uint8_t> a, ArrayRef<uint8_t> b) const {
  return !mayBeUneven[d] || piecesOf(problem.shape[d], sizesOf(a)) == piecesOf(problem.shape[d], sizesOf(b));
}

uint32_t SearchSpace::unusedAxes(const NumberedLayout &layout) const {
  uint32_t unused = allAxes() & ~layout.partial;
  for (const AxisNumbers &list : layout.dims) {
    for (uint8_t axis : list) {
      unused &= ~(1u << axis);
    }
  }
  return unused;
}

AxisNumbers SearchSpace::movedAxes(const NumberedLayout &from, const NumberedLayout &to) const {
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

bool SearchSpace::isEven() const {
  return !llvm::is_contained(mayBeUneven, true);
}

SmallVector<int64_t> SearchSpace::sizesOf(ArrayRef<uint8_t> list) const {
  SmallVector<int64_t> sizes;
  for (uint8_t axis : list) {
    llvm::append_range(sizes, problem.axes[axis].parts);
  }
  return sizes;
}

} // namespace ashlar::analysis
