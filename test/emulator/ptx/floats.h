// SPDX-License-Identifier: Apache-2.0
//
// Floating point operations, and the modes they share: flush subnormals to zero, clamp to [0, 1], and directed rounding.

#ifndef ASHLAR_TEST_EMULATOR_PTX_FLOATS_H
#define ASHLAR_TEST_EMULATOR_PTX_FLOATS_H

#include "test/emulator/ptx/decoder.h"

namespace ashlar::emulator {

// Decodes an opcode that integers have too (add, min, ...) for a float type.
void decodeFloat(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement, Type type);

enum class Rounding : uint8_t { Nearest, Zero, Down, Up };

// Returns the float next to a + b; `sum` is the nearest double and `error` its rounding error.
float roundDirected(double sum, double error, Rounding rounding);

// Removes "rn", "rz", "rm" or "rp".
Rounding takeRounding(Qualifiers &qualifiers);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_FLOATS_H
