// SPDX-License-Identifier: Apache-2.0
//
// A slot is a place in the arena.

#include "runtime/execute/slots.h"

#include "runtime/comm/transfer.h"

#include <algorithm>

namespace ashlar::rt {

bool usesSlot(const ashlar_rt_instr &instr) {
  return std::any_of(instr.buffers, instr.buffers + instr.num_buffers,
                     [](const ashlar_rt_buffer &buffer) { return buffer.space == ASHLAR_RT_SLOT; });
}

bool usesSlot(const ashlar_rt_program &program) {
  return std::any_of(program.instrs, program.instrs + program.num_instrs, [](const ashlar_rt_instr &instr) { return usesSlot(instr); });
}

ashlar_rt_buffer bufferInArena(const ashlar_rt_variant &variant, const ashlar_rt_buffer &buffer, uint64_t slot) {
  ashlar_rt_buffer placed = buffer;
  placed.offset = offsetInArena(variant, buffer, slot);
  placed.space = buffer.space == ASHLAR_RT_SLOT ? static_cast<uint32_t>(ASHLAR_RT_ARENA) : buffer.space;
  return placed;
}

InstrInSlot::InstrInSlot(const ashlar_rt_instr &instr, const ashlar_rt_variant &variant, uint64_t slot)
    : placed(instr), buffers(instr.buffers, instr.buffers + instr.num_buffers) {
  for (ashlar_rt_buffer &buffer : buffers) {
    buffer = bufferInArena(variant, buffer, slot);
  }
  placed.buffers = buffers.data();
}

} // namespace ashlar::rt
