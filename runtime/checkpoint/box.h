// SPDX-License-Identifier: Apache-2.0
//
// Ranges of a global tensor, and the arrays that hold them.

#ifndef ASHLAR_RUNTIME_CHECKPOINT_BOX_H
#define ASHLAR_RUNTIME_CHECKPOINT_BOX_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::rt {

// A range of each dim of a global tensor, and the row-major array that holds it: of `shape`, which is `size` and, behind it, padding.
struct Box {
  size_t rank = 0; // at most ASHLAR_RT_MAX_RANK
  const int64_t *start = nullptr, *size = nullptr, *shape = nullptr;
};

// Calls use(inFrom, inTo, count) for every run of elements that two boxes of one tensor have in common: `count` of them, from element
// `inFrom` of the one array and `inTo` of the other on. Stops at the first failure, and returns it. Example: rows 0 to 3 and rows 2 to 5 of
// a 6 x 5 matrix have one run, use(10, 0, 10).
template <typename Use> Status forEachCommonRun(const Box &from, const Box &to, Use &&use) {
  std::array<int64_t, ASHLAR_RT_MAX_RANK> begin = {}, size = {}, at = {}; // `at`: in the common part
  for (size_t dim = 0; dim < from.rank; ++dim) {
    begin[dim] = std::max(from.start[dim], to.start[dim]);
    size[dim] = std::min(from.start[dim] + from.size[dim], to.start[dim] + to.size[dim]) - begin[dim];
    if (size[dim] <= 0) {
      return Status();
    }
  }
  // A run consists of the last dims that are complete in both arrays, and the present part of the one before.
  size_t run = from.rank;
  int64_t count = 1;
  while (run > 0) {
    --run;
    count *= size[run];
    if (size[run] != from.shape[run] || size[run] != to.shape[run]) {
      break;
    }
  }
  while (true) {
    int64_t inFrom = 0, inTo = 0;
    for (size_t dim = 0; dim < from.rank; ++dim) {
      inFrom = inFrom * from.shape[dim] + begin[dim] + at[dim] - from.start[dim];
      inTo = inTo * to.shape[dim] + begin[dim] + at[dim] - to.start[dim];
    }
    ASHLAR_RETURN_IF_ERROR(use(inFrom, inTo, count));
    // Counts up over the dims before the run, the last one fastest.
    size_t dim = run;
    while (dim > 0 && ++at[dim - 1] == size[dim - 1]) {
      at[--dim] = 0;
    }
    if (dim == 0) {
      return Status();
    }
  }
}

// Calls use(start, size) for parts of a tensor that have at most `limit` elements, follow each other row by row, and together are all of
// it. Stops at the first failure, and returns it. Assumes that `limit` is positive. Example: a 3 x 4 matrix and 8 elements: rows 0 and 1,
// row 2.
template <typename Use> Status forEachPart(const std::vector<int64_t> &shape, int64_t limit, Use &&use) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return Status();
  }
  size_t whole = shape.size(); // the dims from here on are in one part
  int64_t inner = 1;
  while (whole > 0 && shape[whole - 1] <= limit / inner) {
    inner *= shape[--whole];
  }
  std::vector<int64_t> start(shape.size(), 0), size = shape;
  std::fill(size.begin(), size.begin() + static_cast<std::ptrdiff_t>(whole), 1);
  if (whole == 0) {
    return use(start, size);
  }
  const size_t cut = whole - 1;
  while (true) {
    size[cut] = std::min(limit / inner, shape[cut] - start[cut]);
    ASHLAR_RETURN_IF_ERROR(use(start, size));
    start[cut] += size[cut];
    for (size_t dim = cut; start[dim] == shape[dim]; --dim) {
      if (dim == 0) {
        return Status();
      }
      start[dim] = 0;
      ++start[dim - 1];
    }
  }
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_BOX_H
