// SPDX-License-Identifier: Apache-2.0
//
// How a GPU kernel of each kind shares out its domain between blocks and threads. Numbers only; the code is made in emit_gpu_*.cpp.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_SHAPE_H
#define ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_SHAPE_H

#include <cstdint>

namespace ashlar::lower {

constexpr int64_t kWarp = 32;         // threads that run in step and can shuffle
constexpr int64_t kLoopThreads = 256; // a block of a loop
constexpr int64_t kBusyBlocks = 264;  // two for each of 132 multiprocessors

// A chunk is one access of a thread: `lanes` neighbouring elements, a power of two.
struct GpuRowShape {
  int64_t lanes = 1;
  int64_t threads = 1;     // a row
  int64_t rowsABlock = 1;  // threads * rowsABlock is the size of a block
  int64_t chunks = 1;      // a thread's chunks of a row; the last may lie past its end
  bool inRegisters = true; // the code for all chunks stands side by side, and values are kept between passes; else a loop in each pass
};

// Shares out `rows` of `elements`, with at most `lanes` readable at once. `heldBytes`: bytes of an element in registers from one pass to
// the next; the more, the more threads a row has. A row in loops has a block to itself, and so have few rows.
//   1024 f32, 4 lanes  ->  a warp a row, 4 rows a block, 8 chunks a thread
//   8192 f32, 4 lanes  ->  1024 threads a row, 2 chunks a thread
GpuRowShape shareOutRows(int64_t rows, int64_t elements, int64_t lanes, int64_t heldBytes);

// Threads of a block lie in `across` columns of chunks and `down` rows.
struct GpuColumnShape {
  int64_t lanes = 1;
  int64_t across = 1;
  int64_t down = 1;
  int64_t blocks = 1; // side by side, over the columns
};

// Shares out `rows` x `columns`, with at most `lanes` columns readable at once; a thread's accumulators and their place in shared memory
// take `accumulatorBytes` a column.
GpuColumnShape shareOutColumns(int64_t rows, int64_t columns, int64_t lanes, int64_t accumulatorBytes);

// Returns into how many segments to cut `size` rows, each worth `elements`, so that `blocks` blocks become enough for the chip: a divisor
// of `size`, if possible one that leaves whole vectors, 1 when it is not worth a second kernel or no divisor fits.
int64_t countSegments(int64_t size, int64_t elements, int64_t blocks);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_SHAPE_H
