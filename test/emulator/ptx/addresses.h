// SPDX-License-Identifier: Apache-2.0
//
// State spaces and addresses of memory instructions.

#ifndef ASHLAR_TEST_EMULATOR_PTX_ADDRESSES_H
#define ASHLAR_TEST_EMULATOR_PTX_ADDRESSES_H

#include "test/emulator/ptx/decoder.h"

namespace ashlar::emulator {

// The space of a generic address, and the address in it.
inline Space spaceOf(uint64_t &address) {
  if (address >= kLocalWindow) {
    address -= kLocalWindow;
    return Space::Local;
  }
  if (address >= kSharedWindow) {
    address -= kSharedWindow;
    return Space::Shared;
  }
  return Space::Global;
}

// Removes the state space; generic when there is none.
Space takeSpace(Qualifiers &qualifiers);

// Returns the place of the 64 bit address in `operand` without its offset.
uint32_t addressPlace(Decoder &decoder, const Operand &operand, Space space);

// Removes hints and orders that change nothing here: every access is done at once.
void ignoreHints(Qualifiers &qualifiers);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_ADDRESSES_H
