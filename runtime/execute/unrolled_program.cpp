// SPDX-License-Identifier: Apache-2.0
//
// Instructions whose buffers stay where they are share their buffers with the first program.

#include "runtime/execute/unrolled_program.h"

#include "runtime/execute/repeats.h"

#include <algorithm>

namespace ashlar::rt {

Status UnrolledProgram::unroll(const ashlar_rt_program &program, size_t most) {
  for (InstrCursor cursor(program); cursor.next();) {
    if (const ashlar_rt_instr &instr = program.instrs[cursor.instr()]; instr.kind == ASHLAR_RT_REPEAT) {
      if (instr.num_buffers != 0) {
        return internal("{}: has a condition, which this target does not take", instr.name);
      }
      continue;
    }
    if (instrs.size() == most) {
      return unavailable("program {} runs more than {} instructions, those of loops counted in each iteration, which are more than this "
                         "target takes; make its loops shorter, or compile it for the cpu",
                         program.name, most);
    }
    ashlar_rt_instr &instr = instrs.emplace_back(program.instrs[cursor.instr()]);
    sources.push_back(cursor.instr());
    ashlar_rt_buffer const *begin = instr.buffers, *end = begin + instr.num_buffers;
    if (std::none_of(begin, end, [](const ashlar_rt_buffer &buffer) { return buffer.num_strides != 0; })) {
      continue;
    }
    std::vector<ashlar_rt_buffer> &buffers = moved.emplace_back(begin, end);
    for (ashlar_rt_buffer &buffer : buffers) {
      buffer.offset += static_cast<uint64_t>(cursor.shiftOf(buffer));
      buffer.num_strides = 0;
      buffer.strides = nullptr;
    }
    instr.buffers = buffers.data();
  }
  unrolled = program;
  unrolled.num_instrs = static_cast<uint32_t>(instrs.size());
  unrolled.instrs = instrs.data();
  return Status();
}

} // namespace ashlar::rt
