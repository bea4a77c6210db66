// SPDX-License-Identifier: Apache-2.0
//
// The runs of a halo: which elements along its dim a device has, and which it gets.

#ifndef ASHLAR_RUNTIME_COMM_RUNS_H
#define ASHLAR_RUNTIME_COMM_RUNS_H

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

// The run of one device.
struct Run {
  int64_t start = 0;          // the element that its buffer begins with; negative in the padding in front of the tensor
  int64_t begin = 0, end = 0; // the elements of the tensor in it; none where end <= begin
};

// Returns the run of the member with a coordinate in its group. `runs` are the halo's runs before it, or after it.
Run runAt(const ashlar_rt_halo &halo, uint32_t numAxes, const ashlar_rt_runs &runs, int coordinate);

// Returns how many elements a buffer has along the dim.
int64_t runLength(const ashlar_rt_halo &halo, uint32_t numAxes, const ashlar_rt_runs &runs);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_RUNS_H
