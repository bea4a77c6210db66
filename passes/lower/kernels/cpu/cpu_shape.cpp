// SPDX-License-Identifier: Apache-2.0

#include "passes/lower/kernels/cpu/cpu_shape.h"

#include <algorithm>

namespace ashlar::lower {

namespace {

constexpr int64_t kMostSegments = 32;
// A row of columns is cut between threads where each gets a few pages of it; narrower rows are shared out whole.
constexpr int64_t kWideRow = 4096;
// The least that a segment reduces.
constexpr int64_t kSegmentRows = 512;

} // namespace

int64_t countCpuSegments(int64_t size, int64_t rows, int64_t columns) {
  if (columns >= kWideRow) {
    return 1;
  }
  int64_t least = columns == 1 ? kGrainElements : kSegmentRows;
  int64_t segments = std::min({size, kMostSegments, size * rows / least});
  while (segments > 1 && size % segments != 0) {
    --segments;
  }
  return std::max<int64_t>(1, segments);
}

} // namespace ashlar::lower
