// SPDX-License-Identifier: Apache-2.0
//
// Integer additions with a carry flag.

#ifndef ASHLAR_TEST_EMULATOR_PTX_CARRIES_H
#define ASHLAR_TEST_EMULATOR_PTX_CARRIES_H

#include "test/emulator/ptx/decoder.h"

namespace ashlar::emulator {

// Decodes add, sub or mad with .cc, and addc, subc, madc.
void decodeCarry(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement, Type type);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_CARRIES_H
