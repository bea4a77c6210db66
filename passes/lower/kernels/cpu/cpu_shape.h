// SPDX-License-Identifier: Apache-2.0
//
// How the threads of a rank share out the domain of a CPU kernel. Numbers only; the code is made in emit_cpu_*.cpp. Nothing depends on the
// number of threads, so neither does a bit of a result.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_CPU_CPU_SHAPE_H
#define ASHLAR_PASSES_LOWER_KERNELS_CPU_CPU_SHAPE_H

#include <cstdint>

namespace ashlar::lower {

// A part of the parallel loop smaller than this many elements is not worth a thread.
constexpr int64_t kGrainElements = 16384;
// Cuts of a flat loop fall on multiples of this, so that each element runs in the same vector lane whatever the number of threads.
constexpr int64_t kCutElements = 64;

// Returns into how many segments to cut `size`, the first of the dims that a reduction runs over, for its threads: a divisor of `size`, 1
// where it is not worth a second kernel. A step of `size` reduces `rows` rows to `columns` results, or one row of `rows` elements where
// `columns` is 1.
//   8 x 112 x 112 pixels of 64 channels  ->  8 segments;  1 M elements to one sum  ->  32 segments
int64_t countCpuSegments(int64_t size, int64_t rows, int64_t columns);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_CPU_CPU_SHAPE_H
