// SPDX-License-Identifier: Apache-2.0
//
// Programs on a slot that is chosen at each run: their instructions for one of the slots.

#ifndef ASHLAR_RUNTIME_EXECUTE_SLOTS_H
#define ASHLAR_RUNTIME_EXECUTE_SLOTS_H

#include "runtime/abi/ashlar_rt.h"

#include <vector>

namespace ashlar::rt {

// Whether an instruction, or any of a program, works on a slot.
bool usesSlot(const ashlar_rt_instr &instr);
bool usesSlot(const ashlar_rt_program &program);

// Returns the buffer as one of the arena, where it lies in a slot; any other one as it is.
ashlar_rt_buffer bufferInArena(const ashlar_rt_variant &variant, const ashlar_rt_buffer &buffer, uint64_t slot);

// An instruction as it is for one slot: nothing in it names a slot any more.
class InstrInSlot {
public:
  // The instruction and the variant outlive this.
  InstrInSlot(const ashlar_rt_instr &instr, const ashlar_rt_variant &variant, uint64_t slot);
  InstrInSlot(const InstrInSlot &) = delete;
  InstrInSlot &operator=(const InstrInSlot &) = delete;

  const ashlar_rt_instr &get() const { return placed; }

private:
  ashlar_rt_instr placed;
  std::vector<ashlar_rt_buffer> buffers;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_SLOTS_H
