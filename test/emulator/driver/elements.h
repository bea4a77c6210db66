// SPDX-License-Identifier: Apache-2.0
//
// Elements of the operands that libraries are given: f32, f16 and bf16 in device memory, f32 to compute with.

#ifndef ASHLAR_TEST_EMULATOR_DRIVER_ELEMENTS_H
#define ASHLAR_TEST_EMULATOR_DRIVER_ELEMENTS_H

#include "test/emulator/driver/api.h"

#include <cstddef>

namespace ashlar::emulator {

// Bytes of an element, 0 for types that are not known.
unsigned elementBytes(cudaDataType type);

float loadElement(const std::byte *at, cudaDataType type);
// Rounds once, to nearest even.
void storeElement(std::byte *at, cudaDataType type, float value);

// Returns f32 with 10 bits of mantissa, ties away from zero.
float roundToTf32(float value);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_DRIVER_ELEMENTS_H
