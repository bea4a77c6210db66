// SPDX-License-Identifier: Apache-2.0
//
// The repeats around an instruction are a stack.

#include "runtime/execute/repeats.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ashlar::rt {

bool InstrCursor::next() {
  uint32_t to = 0;
  if (hasBegun) {
    const ashlar_rt_instr &last = program.instrs[at];
    to = at + 1;
    if (last.kind == ASHLAR_RT_REPEAT) {
      const auto &desc = *static_cast<const ashlar_rt_repeat_desc *>(last.desc);
      if (desc.count == 0 || desc.num_instrs == 0 || std::exchange(skips, false)) {
        to += desc.num_instrs;
      } else {
        around.push_back({to, to + desc.num_instrs, desc.count, 0});
      }
    }
  }
  hasBegun = true;
  while (!around.empty() && to == around.back().end) {
    Repeat &last = around.back();
    if (++last.iteration < last.count) {
      to = last.begin;
      break;
    }
    around.pop_back();
  }
  at = to;
  return to < program.num_instrs;
}

int64_t InstrCursor::shiftOf(const ashlar_rt_buffer &buffer) const {
  int64_t shift = 0;
  for (size_t i = 0; i < std::min<size_t>(buffer.num_strides, around.size()); ++i) {
    shift += buffer.strides[i] * static_cast<int64_t>(around[i].iteration);
  }
  return shift;
}

Status visitInstrs(const ashlar_rt_program &program,
                   const std::function<Status(const ashlar_rt_instr &instr, const std::vector<uint64_t> &counts)> &visit) {
  std::vector<uint32_t> ends;
  std::vector<uint64_t> counts;
  for (uint32_t i = 0; i < program.num_instrs; ++i) {
    while (!ends.empty() && i == ends.back()) {
      ends.pop_back();
      counts.pop_back();
    }
    const ashlar_rt_instr &instr = program.instrs[i];
    ASHLAR_RETURN_IF_ERROR(visit(instr, counts));
    if (instr.kind != ASHLAR_RT_REPEAT) {
      continue;
    }
    const auto &desc = *static_cast<const ashlar_rt_repeat_desc *>(instr.desc);
    const uint32_t left = (ends.empty() ? program.num_instrs : ends.back()) - i - 1;
    if (desc.num_instrs > left) {
      return internal("{}: repeats {} instructions but {} are left", instr.name, desc.num_instrs, left);
    }
    if (desc.num_instrs > 0) {
      ends.push_back(i + 1 + desc.num_instrs);
      counts.push_back(desc.count);
    }
  }
  return Status();
}

std::vector<uint64_t> timesOf(const ashlar_rt_program &program) {
  std::vector<uint64_t> times;
  (void)visitInstrs(program, [&](const ashlar_rt_instr &, const std::vector<uint64_t> &counts) { // was checked
    times.push_back(std::accumulate(counts.begin(), counts.end(), uint64_t{1}, std::multiplies<>()));
    return Status();
  });
  return times;
}

SweptBytes sweep(const ashlar_rt_buffer &buffer, const std::vector<uint64_t> &counts) {
  SweptBytes swept{static_cast<int64_t>(buffer.offset), static_cast<int64_t>(buffer.offset + buffer.bytes)};
  for (uint32_t i = 0; i < std::min<size_t>(buffer.num_strides, counts.size()); ++i) {
    const int64_t last = counts[i] == 0 ? 0 : buffer.strides[i] * static_cast<int64_t>(counts[i] - 1);
    swept.low += std::min<int64_t>(last, 0);
    swept.high += std::max<int64_t>(last, 0);
  }
  return swept;
}

} // namespace ashlar::rt
