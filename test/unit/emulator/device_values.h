// SPDX-License-Identifier: Apache-2.0
//
// Operands of libraries: values on the device, and their values as floats.

#ifndef ASHLAR_TEST_UNIT_EMULATOR_DEVICE_VALUES_H
#define ASHLAR_TEST_UNIT_EMULATOR_DEVICE_VALUES_H

#include <cuda.h>
#include <library_types.h>

#include <cstddef>
#include <vector>

namespace ashlar::emulator {

// Makes the context of the first device current.
void enterDevice();

CUdeviceptr upload(const void *data, size_t bytes);

// Values between -1 and 1 as floats, stored on the device as f32, f16 or bf16.
struct Values {
  Values(size_t count, cudaDataType type, int seed = 0);

  // Copies the device's current values to `floats`.
  void download();

  cudaDataType type;
  std::vector<float> floats;
  CUdeviceptr device;
};

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_UNIT_EMULATOR_DEVICE_VALUES_H
