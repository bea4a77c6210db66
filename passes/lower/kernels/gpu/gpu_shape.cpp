// SPDX-License-Identifier: Apache-2.0
//
// Figures behind the choices: a chip of 2020 or later has about 100 multiprocessors, each with 64 K registers of 4 bytes, 2048 threads and
// 48 KiB of shared memory that a kernel gets without asking.

#include "passes/lower/kernels/gpu/gpu_shape.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace ashlar::lower {

namespace {

constexpr int64_t kWarpRowElements = 1024; // longer rows have a block
constexpr int64_t kWarpBlock = 128;        // threads of a block whose rows have a warp or less
constexpr int64_t kLeastBlock = 256, kLargestBlock = 1024;
constexpr int64_t kThreadElements = 8; // wanted of a row, so that a thread has two vectors underway
// A thread keeps at most this many elements, in at most this many bytes of registers: half of what it gets when 512, or 1024, threads share
// a multiprocessor's.
constexpr int64_t kKeptElements = 32;
constexpr int64_t kKeptBytes = 256, kKeptBytesOfLargest = 128;
constexpr int64_t kColumnThreads = 256;
constexpr int64_t kSharedBytes = 48 * 1024;
// Blocks that fill a chip, the least number of elements worth a block of its own, and the least number of segments worth a second kernel.
constexpr int64_t kFullChipBlocks = 512;
constexpr int64_t kSegmentElements = 16384;
constexpr int64_t kLeastSegments = 4;

int64_t powerOfTwo(int64_t least) {
  return static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(std::max<int64_t>(1, least))));
}

} // namespace

GpuRowShape shareOutRows(int64_t rows, int64_t elements, int64_t lanes, int64_t heldBytes) {
  GpuRowShape shape;
  shape.lanes = lanes;
  auto setThreads = [&](int64_t threads) {
    shape.threads = threads;
    shape.rowsABlock = threads <= kWarp ? kWarpBlock / threads : 1; // warps combine through the memory of the whole block
    shape.chunks = llvm::divideCeil(elements, threads * lanes);
    int64_t kept = shape.chunks * lanes;
    shape.inRegisters = kept <= kKeptElements && kept * heldBytes <= (threads == kLargestBlock ? kKeptBytesOfLargest : kKeptBytes);
  };
  if (elements <= kWarpRowElements) {
    setThreads(std::min(kWarp, powerOfTwo(llvm::divideCeil(elements, lanes))));
  } else {
    setThreads(std::clamp(powerOfTwo(llvm::divideCeil(elements, kThreadElements)), kLeastBlock, kLargestBlock));
  }
  while (!shape.inRegisters && shape.threads < kLargestBlock) {
    setThreads(2 * shape.threads);
  }
  while (shape.rowsABlock > 1 && shape.rowsABlock * shape.threads > kWarp && llvm::divideCeil(rows, shape.rowsABlock) < kBusyBlocks) {
    shape.rowsABlock /= 2;
  }
  return shape;
}

GpuColumnShape shareOutColumns(int64_t rows, int64_t columns, int64_t lanes, int64_t accumulatorBytes) {
  GpuColumnShape shape;
  shape.lanes = lanes;
  while (shape.lanes > 1 && kColumnThreads * shape.lanes * accumulatorBytes > kSharedBytes) {
    shape.lanes /= 2;
  }
  int64_t chunks = llvm::divideCeil(columns, shape.lanes);
  shape.across = std::min(kWarp, powerOfTwo(chunks));
  shape.down = std::min(kColumnThreads / shape.across, powerOfTwo(rows));
  while (shape.down > 1 && shape.across * shape.down * shape.lanes * accumulatorBytes > kSharedBytes) {
    shape.down /= 2;
  }
  shape.blocks = llvm::divideCeil(chunks, shape.across);
  return shape;
}

int64_t countSegments(int64_t size, int64_t elements, int64_t blocks) {
  blocks = std::max<int64_t>(1, blocks);
  int64_t wanted = std::min({static_cast<int64_t>(llvm::divideCeil(kFullChipBlocks, blocks)), size * elements / blocks / kSegmentElements,
                             size / kThreadElements});
  int64_t best = 1;
  for (int64_t segments = wanted; segments >= kLeastSegments; --segments) {
    if (size % segments == 0 && size / segments % kThreadElements == 0) {
      return segments;
    }
    best = size % segments == 0 ? std::max(best, segments) : best;
  }
  return best;
}

} // namespace ashlar::lower
