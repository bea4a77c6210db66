// SPDX-License-Identifier: Apache-2.0
//
// The runs of a halo.

#include "runtime/comm/runs.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

} // namespace

Run runAt(const ashlar_rt_halo &halo, uint32_t numAxes, const ashlar_rt_runs &runs, int coordinate) {
  int64_t minor = 1;
  for (uint32_t axis = 0; axis < numAxes; ++axis) {
    minor *= halo.axis_sizes[axis];
  }
  // The positions [start, end) of the member: its piece of a piece of a piece.
  int64_t start = 0, end = runs.positions, piece = runs.positions;
  for (uint32_t axis = 0; axis < numAxes; ++axis) {
    const int64_t size = halo.axis_sizes[axis];
    minor /= size;
    piece = ceilDiv(piece, size);
    start += coordinate / minor % size * piece;
    end = std::min(end, start + piece);
  }
  Run run;
  run.start = start * runs.step + runs.first;
  if (start < end) {
    run.begin = std::max<int64_t>(0, run.start);
    run.end = std::min(halo.size, (end - 1) * runs.step + runs.last);
  }
  return run;
}

int64_t runLength(const ashlar_rt_halo &halo, uint32_t numAxes, const ashlar_rt_runs &runs) {
  int64_t piece = runs.positions;
  for (uint32_t axis = 0; axis < numAxes; ++axis) {
    piece = ceilDiv(piece, halo.axis_sizes[axis]);
  }
  return (piece - 1) * runs.step + runs.last - runs.first;
}

} // namespace ashlar::rt
