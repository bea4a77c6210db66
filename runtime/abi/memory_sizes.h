// SPDX-License-Identifier: Apache-2.0
//
// The bytes that a process needs besides the arenas of its devices. The runtime allocates exactly as much as these functions return, and
// the compiler plans with them (passes/lower/memory/memory_use.h), so a plan cannot miss memory of a run. Plain arithmetic.

#ifndef ASHLAR_RUNTIME_ABI_MEMORY_SIZES_H
#define ASHLAR_RUNTIME_ABI_MEMORY_SIZES_H

#include "runtime/abi/ashlar_rt.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ashlar::rt {

constexpr uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Memory that processes share, and staged batches, begin on pages.
constexpr uint64_t kPageBytes = 4096;

// cpu: the workspace of matrix products, for each thread: of the kernel that takes most, AVX-512 with 12 x 32 elements in registers,
constexpr uint64_t kProductTileCols = 32;
constexpr uint64_t kProductWorkspaceBytes = (384 * kProductTileCols + 384 * 384) * sizeof(float);

// behind it, for f32 whose A takes several blocks of rows, the panels of B that all of them read, of so many columns at a time,
constexpr uint64_t kProductKeptCols = 1024;
constexpr uint64_t kProductKeptBytes = 384 * kProductKeptCols * sizeof(float);

// or the sums of a product of bf16 or f16, in f32, where they are rounded to its result and k is above a number.
constexpr uint64_t kProductSumBytes = uint64_t{384} * 512 * sizeof(float);
constexpr int64_t kProductSumsFrom = 384;

// Returns the elements of one column of an ordered B: numbers of f32, two of bf16 or f16, or four bytes at a time and the correction of
// their sums.
constexpr uint64_t orderedRows(const ashlar_rt_gemm_desc &desc) {
  return desc.bytes != 0 ? (desc.k + 3) / 4 + 1 : desc.narrow != 0 ? (desc.k + 1) / 2 : desc.k;
}

// Returns the bytes that a product's fixed weights take in the order of the kernel, at least.
constexpr uint64_t orderedWeightBytes(const ashlar_rt_gemm_desc &desc) {
  uint64_t columns = roundUp(desc.n, kProductTileCols);
  return desc.fixed_weights != 0 ? roundUp(desc.batch * orderedRows(desc) * columns * sizeof(float), ASHLAR_RT_ALIGNMENT) : 0;
}

// cpu: rows of A that are copied, four bytes to an element, with their sum.
constexpr uint64_t kByteRows = 96;

// Returns the bytes that each thread needs for a product, at least.
constexpr uint64_t productWorkspaceBytes(const ashlar_rt_gemm_desc &desc) {
  const bool keepsPanels = desc.fixed_weights == 0 && desc.m * std::min<int64_t>(desc.k, 384) > 384 * 384;
  if (desc.bytes == 0 && desc.narrow == 0) {
    return kProductWorkspaceBytes + (keepsPanels ? kProductKeptBytes : 0);
  }
  if (desc.bytes == 0) {
    return kProductWorkspaceBytes + (desc.narrow_out != 0 && desc.k > kProductSumsFrom ? kProductSumBytes : 0);
  }
  uint64_t rows = std::min<uint64_t>(desc.m, kByteRows) * orderedRows(desc);
  uint64_t ordered = desc.fixed_weights != 0 ? 0 : orderedRows(desc) * roundUp(desc.n, kProductTileCols);
  return kProductWorkspaceBytes + roundUp((rows + ordered) * sizeof(uint32_t), ASHLAR_RT_ALIGNMENT) + 2 * ASHLAR_RT_ALIGNMENT;
}

// cpu: the workspace of convolutions. Panels of ordered weights, or sums of a weight gradient, up to so many bytes (more only where a
// single panel takes more), addresses of pixels, and positions that a weight gradient adds up at a time.
constexpr uint64_t kConvTileRows = 12, kConvTileCols = 32; // of the kernel that takes most
constexpr uint64_t kConvPanelBytes = uint64_t{2} << 20;
constexpr uint64_t kConvTableBytes = uint64_t{128} << 10;
constexpr uint64_t kConvPositions = 384;
// Pixels of a block, channels of a piece of the chain, and floats from pixel to pixel where they are copied.
constexpr int64_t kConvBlockPixels = 192, kConvBlockChain = 576, kConvCopiedPixel = kConvBlockChain + 16;
// Places whose addresses fit into the table for a block, and once more for its copies; columns whose sums are kept where they are rounded
// to bf16 or f16, and floats that these rows are longer, so that they do not share lines of the L1 cache.
constexpr int64_t kConvBlockPlaces = kConvTableBytes / sizeof(void *) / 2 / kConvBlockPixels;
constexpr uint64_t kConvSumCols = 1024, kConvSumPadding = 16;

// Returns the number of places in the kernel's window.
constexpr uint64_t convPlaces(const ashlar_rt_conv_desc &desc) {
  return desc.dims[0].kernel * desc.dims[1].kernel * desc.dims[2].kernel;
}

// Returns true for one channel in and out of each group.
constexpr bool isDepthwise(const ashlar_rt_conv_desc &desc) {
  return desc.groups > 1 && desc.channels_in == 1 && desc.channels_out == 1;
}

// Returns true where few channels make it worth to take the kernel's columns and the channels as one: both are contiguous in a row of x.
constexpr bool foldsColumns(const ashlar_rt_conv_desc &desc) {
  return desc.kind != ASHLAR_RT_CONV_DATA && desc.groups == 1 && desc.channels_in < 16 && desc.dims[2].kernel > 1 &&
         desc.dims[2].dilation == 1;
}

// Returns the columns of x that folded convolutions read, padding included.
constexpr uint64_t foldedColumns(const ashlar_rt_conv_dim &dim) {
  return (dim.out - 1) * dim.stride + dim.kernel;
}

// Returns the bytes that fixed weights take in the order of the kernel, at least; 0 where every run orders them in its workspace. bf16 and
// f16 are numbers of two bytes, or elements of two numbers, and from place to place a row of these more.
constexpr uint64_t orderedWeightBytes(const ashlar_rt_conv_desc &desc) {
  uint64_t places = convPlaces(desc), in = desc.channels_in, out = desc.channels_out;
  uint64_t cols = desc.kind == ASHLAR_RT_CONV_DATA ? in : out, depth = desc.kind == ASHLAR_RT_CONV_DATA ? out : in;
  uint64_t columns = isDepthwise(desc) ? roundUp(desc.groups, kConvTileCols) : desc.groups * roundUp(cols, kConvTileCols);
  uint64_t rows = places * (isDepthwise(desc) ? 1 : desc.narrow != 0 ? depth + 3 : depth + 1);
  uint64_t bytes = rows * columns * (desc.narrow != 0 ? sizeof(uint16_t) : sizeof(float));
  return desc.fixed_weights != 0 ? roundUp(bytes, ASHLAR_RT_ALIGNMENT) : 0;
}

// Returns the bytes of sums of a block that wait in f32 for the next piece of their chains, where the result is bf16 or f16.
constexpr uint64_t convSumBytes(const ashlar_rt_conv_desc &desc) {
  int64_t places = convPlaces(desc), depth = desc.kind == ASHLAR_RT_CONV_DATA ? desc.channels_out : desc.channels_in;
  uint64_t cols = desc.kind == ASHLAR_RT_CONV_DATA ? desc.channels_in : desc.channels_out;
  uint64_t columns = std::min(desc.groups * roundUp(cols, kConvTileCols), kConvSumCols) + kConvSumPadding;
  bool isOneBlock = places * depth <= kConvBlockChain && places <= kConvBlockPlaces;
  bool keepsSums = desc.narrow_out != 0 && desc.kind != ASHLAR_RT_CONV_WEIGHTS && !isDepthwise(desc) && !isOneBlock;
  return keepsSums ? kConvBlockPixels * columns * sizeof(float) : 0;
}

// Returns whether two calls read the same weights in one order, so that they can share it.
constexpr bool ordersAlike(const ashlar_rt_gemm_desc &a, const ashlar_rt_gemm_desc &b) {
  return a.batch == b.batch && a.n == b.n && a.k == b.k && a.transpose_b == b.transpose_b && a.bytes == b.bytes && a.narrow == b.narrow;
}
inline bool ordersAlike(const ashlar_rt_conv_desc &a, const ashlar_rt_conv_desc &b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0; // how it is cut depends on all sizes
}

// Returns the bytes that each thread needs for a convolution, at least.
constexpr uint64_t convWorkspaceBytes(const ashlar_rt_conv_desc &desc) {
  uint64_t places = convPlaces(desc), in = desc.channels_in, out = desc.channels_out;
  uint64_t cols = desc.kind == ASHLAR_RT_CONV_DATA ? in : out, depth = desc.kind == ASHLAR_RT_CONV_DATA ? out : in;
  uint64_t rows = places * (roundUp(depth, kConvTileRows) + kConvTileRows);
  uint64_t panel = rows * kConvTileCols * sizeof(float);
  uint64_t panels = desc.groups * (roundUp(cols, kConvTileCols) / kConvTileCols);
  uint64_t bytes = std::min(panels * panel, std::max(panel, kConvPanelBytes));
  if (isDepthwise(desc)) {
    bytes = places * roundUp(desc.groups, kConvTileCols) * sizeof(float);
  }
  bytes = desc.fixed_weights != 0 && (desc.narrow == 0 || isDepthwise(desc)) ? 0 : bytes;
  bytes += (desc.groups * depth * std::max<uint64_t>(desc.dims[2].kernel, 1) + kConvTileCols) * sizeof(float); // zeros
  bytes += std::max(kConvTableBytes, 2 * kConvTileRows * places * sizeof(void *)) + kConvPositions * sizeof(int64_t);
  bytes += kConvPositions * kConvTileCols * sizeof(float) + 8 * places * sizeof(int64_t); // a panel of the gradient, lists of places
  bytes += depth > kConvBlockChain || desc.narrow != 0 ? kConvBlockPixels * kConvCopiedPixel * sizeof(float) : 0;
  bytes += convSumBytes(desc);
  if (foldsColumns(desc)) {
    bytes += desc.dims[0].in * desc.dims[1].in * foldedColumns(desc.dims[2]) * in * sizeof(float);
  }
  return roundUp(bytes, ASHLAR_RT_ALIGNMENT) + 16 * ASHLAR_RT_ALIGNMENT;
}

// cpu: up to so many rows of the heads that share keys, an attention reads keys and values where they lie.
constexpr int64_t kAttentionFewRows = 8;

// Returns the rows of the heads that share keys.
constexpr int64_t attentionSharedRows(const ashlar_rt_attention_desc &desc) {
  return desc.heads / std::max<int64_t>(desc.key_heads, 1) * desc.rows;
}

// Whether an attention has few rows for its keys, as in the generation of one token at a time.
constexpr bool hasFewRows(const ashlar_rt_attention_desc &desc) {
  return desc.kind == ASHLAR_RT_ATTENTION_FORWARD && attentionSharedRows(desc) <= kAttentionFewRows;
}

// cpu: the workspace of an attention, for each thread: which rows of scores and keys are computed at a time, and where things lie, in
// floats. Rows of all matrices begin on cache lines, an odd number of them apart, so that columns do not fall into few sets of the cache.
// Keys and values of a head are copied once, in the order in which they are read, except for few rows: memory grows with rows and keys,
// never with their product. Sums of a block of keys: the maxima of its rows, the sums of their weights, and the sums of values.
struct AttentionMemory {
  int64_t blockRows, blockKeys;
  int64_t row, valueRow, scoreRow; // floats from row to row of matrices with `width`, `value_width` and blockKeys columns
  int64_t keyPanels;               // k transposed, in panels
  int64_t scores, staged;
  int64_t values, sums, sumsOfBlock; // forward
  int64_t sumRows, sumsSize;         // rows of sums, their floats
  int64_t fewSums;                   // of few rows: of all blocks of two heads
  int64_t valuePanels, keyRows, dScores, slopes, dKeys, dValues, dResult, dQueries, delta, factors; // backward
  int64_t queries; // rows of q: of a block, or backward all
  uint64_t bytes;
};

// Returns floats from row to row of a matrix with `columns` columns.
constexpr int64_t attentionRow(int64_t columns) {
  return static_cast<int64_t>((roundUp(columns, 16) / 16) | 1) * 16;
}

// Returns the workspace of an attention.
constexpr AttentionMemory attentionMemory(const ashlar_rt_attention_desc &desc) {
  AttentionMemory memory{};
  const bool isNarrow = desc.width <= 128 && desc.value_width <= 128;
  memory.blockRows = memory.blockKeys = isNarrow ? 192 : 96; // with their scores in L2; multiples of all register tiles
  memory.row = attentionRow(desc.width);
  memory.valueRow = attentionRow(desc.value_width);
  memory.scoreRow = attentionRow(memory.blockKeys);
  uint64_t floats = 0;
  auto take = [&](int64_t count) {
    const uint64_t first = floats;
    floats += roundUp(count, ASHLAR_RT_ALIGNMENT / sizeof(float));
    return static_cast<int64_t>(first);
  };
  const bool isFew = hasFewRows(desc);
  const int64_t panelKeys = static_cast<int64_t>(roundUp(desc.keys, kProductTileCols));
  memory.sumRows = isFew ? static_cast<int64_t>(roundUp(kAttentionFewRows, 16)) : memory.blockRows;
  memory.sumsSize = memory.sumRows * 2 + (isFew ? attentionSharedRows(desc) : memory.blockRows) * memory.valueRow;
  memory.staged = take(static_cast<int64_t>(kProductTileCols) * std::max(memory.row, memory.valueRow));
  memory.scores = take((isFew ? kAttentionFewRows : memory.blockRows) * memory.scoreRow);
  if (isFew) {
    memory.queries = take(kAttentionFewRows * memory.row);
    memory.fewSums = take(2 * ((desc.keys + memory.blockKeys - 1) / memory.blockKeys) * memory.sumsSize);
    memory.bytes = floats * sizeof(float);
    return memory;
  }
  memory.keyPanels = take(panelKeys * desc.width);
  if (desc.kind == ASHLAR_RT_ATTENTION_FORWARD) {
    memory.queries = take(memory.blockRows * memory.row);
    memory.values = take(desc.keys * memory.valueRow);
    memory.sums = take(memory.sumsSize);
    memory.sumsOfBlock = take(memory.sumsSize);
  } else {
    memory.queries = take(desc.rows * memory.row);
    memory.dQueries = take(desc.rows * memory.row);
    memory.dResult = take(desc.rows * memory.valueRow);
    memory.delta = take(desc.rows);
    memory.factors = take(desc.rows);
    memory.keyRows = take(desc.keys * memory.row);
    memory.dKeys = take(desc.keys * memory.row);
    memory.dValues = take(desc.keys * memory.valueRow);
    memory.valuePanels = take(panelKeys * desc.value_width);
    memory.dScores = take(memory.blockRows * memory.scoreRow);
    memory.slopes = take(desc.softcap != 0 ? memory.blockRows * memory.scoreRow : 0);
  }
  memory.bytes = floats * sizeof(float);
  return memory;
}

// Returns the bytes that each thread needs for an attention.
constexpr uint64_t attentionWorkspaceBytes(const ashlar_rt_attention_desc &desc) {
  return attentionMemory(desc).bytes;
}

// Batches are prepared in a ring of stages, each a run of steps.
constexpr uint64_t kBatchBuffers = 3;
constexpr uint64_t kStageBytes = 256 << 10; // aim; a stage holds at least one step
constexpr uint64_t kMaxStageSteps = 64;

// Returns the steps of a stage when this process' part of a batch takes `stepBytes`.
constexpr uint64_t bufferSteps(uint64_t stepBytes) {
  return std::clamp<uint64_t>(kStageBytes / std::max<uint64_t>(stepBytes, 1), 1, kMaxStageSteps);
}

// Returns the bytes of all stages of a split.
constexpr uint64_t stagedBytes(uint64_t stepBytes) {
  return roundUp(kBatchBuffers * bufferSteps(stepBytes) * stepBytes, kPageBytes);
}

// Parts of a window (runtime/comm/window.h): of each process, and of each process and set of axes.
constexpr uint64_t kPresenceBytes = 64;
constexpr uint64_t kReportBytes = 1024;
constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kMailboxPayload = 4096; // bytes of inputs that one process can publish in a mailbox
constexpr uint64_t kMailboxBytes = 64 + kMailboxPayload;

// Returns the bytes of the lines, and of the mailboxes, of a window.
constexpr uint64_t lineBytes(uint64_t processes, uint64_t sets) {
  return roundUp(sets * processes * kLineBytes, kPageBytes);
}
constexpr uint64_t mailboxBytes(uint64_t processes, uint64_t sets) {
  return roundUp(sets * 2 * processes * kMailboxBytes, kPageBytes);
}

// Returns the bytes of the counters of channels between pipeline stages: two lines for each process and channel that it sends on.
constexpr uint64_t channelBytes(uint64_t channels) {
  return roundUp(channels * 2 * kLineBytes, kPageBytes);
}

// Returns the bytes of a window before its arenas: header, presences, reports, lines, mailboxes and channels. `sets`: distinct sets of axes
// of collectives, in the stage that has most, and one for all processes. `channels`: summed over the processes.
constexpr uint64_t controlBytes(uint64_t processes, uint64_t sets, uint64_t channels = 0) {
  return kPageBytes + roundUp(processes * kPresenceBytes, kPageBytes) + roundUp(processes * kReportBytes, kPageBytes) +
         lineBytes(processes, sets) + mailboxBytes(processes, sets) + channelBytes(channels);
}

// Bounds on one message between hosts, and on all that a collective stages: partial results, and what does not lie in one place.
constexpr uint64_t kMessageBytes = uint64_t{4} << 20;
constexpr uint64_t kHostsStagingBytes = uint64_t{16} << 20;

// Returns the most bytes that a collective between hosts stages in a process, in a group of `members` whose inputs have `inputBytes` each.
// How many it stages follows from the hosts, which a program does not know.
constexpr uint64_t hostsStaging(uint64_t members, uint64_t inputBytes) {
  return std::min(kHostsStagingBytes, 8 * members * roundUp(inputBytes + kLineBytes, kLineBytes));
}

// cuda: everything lies in one block, whose parts begin at multiples of this.
constexpr uint64_t kDeviceAlignment = 256;

// cuda: workspaces of cuBLASLt and cuDNN, used one after the other, and the number of batches that wait on the device: of training and of
// evaluation.
constexpr uint64_t kMatmulWorkspaceBytes = uint64_t{32} << 20;
constexpr uint64_t kConvolutionWorkspaceBytes = uint64_t{128} << 20;
constexpr uint64_t kFeeds = 2;

// cuda: the workspace of an attention. Its gradients begin with the sums of d_q, in f32, and a number for each row; then cuDNN has as much
// as cuBLASLt has for a product.
struct DeviceAttentionMemory {
  uint64_t means, engine, bytes; // where they begin, and all
};

constexpr DeviceAttentionMemory deviceAttentionMemory(const ashlar_rt_attention_desc &desc) {
  const uint64_t rows = desc.kind == ASHLAR_RT_ATTENTION_BACKWARD ? desc.batch * desc.heads * desc.rows : 0;
  DeviceAttentionMemory memory{};
  memory.means = roundUp(rows * desc.width * sizeof(float), kDeviceAlignment);
  memory.engine = memory.means + roundUp(rows * sizeof(float), kDeviceAlignment);
  memory.bytes = memory.engine + kMatmulWorkspaceBytes;
  return memory;
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_ABI_MEMORY_SIZES_H
