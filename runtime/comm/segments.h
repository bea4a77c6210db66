// SPDX-License-Identifier: Apache-2.0
//
// The segments of a halo: which elements along its dim a device has, and which it gets.

#ifndef ASHLAR_RUNTIME_COMM_SEGMENTS_H
#define ASHLAR_RUNTIME_COMM_SEGMENTS_H

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

// The segment of one device.
struct Segment {
  int64_t start = 0;          // the element that its buffer begins with; negative in the padding in front of the tensor
  int64_t begin = 0, end = 0; // the elements of the tensor in it; none where end <= begin
};

// Returns the segment of the member with a coordinate in its group. `segments` are the halo's segments before it, or after it.
Segment segmentAt(const ashlar_rt_halo &halo, uint32_t numAxes, const ashlar_rt_segments &segments, int coordinate);

// Returns how many elements a buffer has along the dim.
int64_t segmentLength(const ashlar_rt_halo &halo, uint32_t numAxes, const ashlar_rt_segments &segments);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_SEGMENTS_H
