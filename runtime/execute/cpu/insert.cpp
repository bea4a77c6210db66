// SPDX-License-Identifier: Apache-2.0
//
// The rows of one element of the outer dims lie together in both tensors: one copy.

#include "runtime/execute/cpu/insert.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

struct InsertCall {
  const char *rows;
  char *target;
  int64_t rowsStride, targetStride; // bytes from one element of the outer dims to the next
  size_t bytes;                     // of each of them
};

void copyRows(void *context, int64_t begin, int64_t end) {
  const auto &call = *static_cast<const InsertCall *>(context);
  for (int64_t outer = begin; outer < end; ++outer) {
    std::memcpy(call.target + outer * call.targetStride, call.rows + outer * call.rowsStride, call.bytes);
  }
}

int64_t readIndex(const ashlar_rt_buffer &buffer, const void *index) {
  int32_t narrow = 0;
  int64_t wide = 0;
  if (buffer.dtype == ASHLAR_RT_I32) {
    std::memcpy(&narrow, index, sizeof(narrow));
    return narrow;
  }
  std::memcpy(&wide, index, sizeof(wide));
  return wide;
}

} // namespace

Status checkInsert(const ashlar_rt_instr &instr) {
  if (instr.num_buffers != 3) {
    return internal("{}: an insert has {} buffers, not 3", instr.name, instr.num_buffers);
  }
  const auto &desc = *static_cast<const ashlar_rt_insert_desc *>(instr.desc);
  const bool isNegative = desc.outer < 0 || desc.rows < 0 || desc.places < 0 || desc.row_bytes < 0;
  const auto part = static_cast<uint64_t>(desc.outer * desc.row_bytes);
  const uint64_t rows = part * static_cast<uint64_t>(desc.rows), target = part * static_cast<uint64_t>(desc.places);
  if (isNegative || instr.buffers[0].bytes != rows || instr.buffers[2].bytes != target) {
    return internal("{}: {} x {} rows of {} bytes for {} places have buffers of {} and {} bytes", instr.name, desc.outer, desc.rows,
                    desc.row_bytes, desc.places, instr.buffers[0].bytes, instr.buffers[2].bytes);
  }
  const ashlar_rt_buffer &index = instr.buffers[1];
  const bool isIndex =
      (index.dtype == ASHLAR_RT_I32 && index.bytes == sizeof(int32_t)) || (index.dtype == ASHLAR_RT_I64 && index.bytes == sizeof(int64_t));
  return isIndex ? Status() : internal("{}: an index of type {} and {} bytes", instr.name, index.dtype, index.bytes);
}

void runInsert(const ashlar_rt_instr &instr, void *const *buffers, ThreadPool &pool) {
  const auto &desc = *static_cast<const ashlar_rt_insert_desc *>(instr.desc);
  const int64_t index = readIndex(instr.buffers[1], buffers[1]);
  if (index <= -desc.rows || index >= desc.places) { // no row is inside; other indices don't overflow below
    return;
  }
  const int64_t first = std::max<int64_t>(0, -index), last = std::min(desc.rows, desc.places - index);
  InsertCall call{static_cast<const char *>(buffers[0]) + first * desc.row_bytes,
                  static_cast<char *>(buffers[2]) + (index + first) * desc.row_bytes, desc.rows * desc.row_bytes,
                  desc.places * desc.row_bytes, static_cast<size_t>((last - first) * desc.row_bytes)};
  const auto bytes = static_cast<int64_t>(call.bytes);
  pool.parallelFor(desc.outer, /*grain=*/std::max<int64_t>(1, ThreadPool::kCopyBytes / std::max<int64_t>(1, bytes)), copyRows, &call);
}

} // namespace ashlar::rt
