// SPDX-License-Identifier: Apache-2.0
//
// Copies between registers.

#ifndef ASHLAR_TEST_EMULATOR_PTX_MOVES_H
#define ASHLAR_TEST_EMULATOR_PTX_MOVES_H

#include "test/emulator/ptx/kernel.h"

namespace ashlar::emulator {

// Returns the handler that copies operand 1 of `width` bytes to operand 0.
Handler copyHandler(unsigned width);

// Returns the handler that makes a value of `width` bytes of one of the type: extended with its sign, or cut.
Handler resizeHandler(Type from, unsigned width);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_MOVES_H
