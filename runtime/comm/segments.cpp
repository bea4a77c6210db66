// SPDX-License-Identifier: Apache-2.0
//
// The segments of a halo.

#include "runtime/comm/segments.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

} // namespace

Segment segmentAt(const ashlar_rt_halo &halo, uint32_t numAxes, const ashlar_rt_segments &segments, int coordinate) {
  int64_t minor = 1;
  for (uint32_t axis = 0; axis < numAxes; ++axis) {
    minor *= halo.axis_sizes[axis];
  }
  // The positions [start, end) of the member: its piece of a piece of a piece.
  int64_t start = 0, end = segments.positions, piece = segments.positions;
  for (uint32_t axis = 0; axis < numAxes; ++axis) {
    const int64_t size = halo.axis_sizes[axis];
    minor /= size;
    piece = ceilDiv(piece, size);
    start += coordinate / minor % size * piece;
    end = std::min(end, start + piece);
  }
  Segment segment;
  segment.start = start * segments.step + segments.first;
  if (start < end) {
    segment.begin = std::max<int64_t>(0, segment.start);
    segment.end = std::min(halo.size, (end - 1) * segments.step + segments.last);
  }
  return segment;
}

int64_t segmentLength(const ashlar_rt_halo &halo, uint32_t numAxes, const ashlar_rt_segments &segments) {
  int64_t piece = segments.positions;
  for (uint32_t axis = 0; axis < numAxes; ++axis) {
    piece = ceilDiv(piece, halo.axis_sizes[axis]);
  }
  return (piece - 1) * segments.step + segments.last - segments.first;
}

} // namespace ashlar::rt
