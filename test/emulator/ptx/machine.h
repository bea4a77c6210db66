// SPDX-License-Identifier: Apache-2.0
//
// Runs a kernel on a grid: block after block, in an order drawn at random, the warps of a block in a new random order after every barrier.

#ifndef ASHLAR_TEST_EMULATOR_PTX_MACHINE_H
#define ASHLAR_TEST_EMULATOR_PTX_MACHINE_H

#include "test/emulator/ptx/kernel.h"

#include <random>

namespace ashlar::emulator {

struct LaunchShape {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t dynamicShared = 0; // bytes

  uint64_t blocks() const { return uint64_t(grid[0]) * grid[1] * grid[2]; }
  uint32_t threads() const { return block[0] * block[1] * block[2]; }
};

class Machine {
public:
  // `races`: accesses that conflict are faults.
  Machine(DeviceMemory &memory, uint64_t seed, bool races = true) : memory(memory), random(seed), races(races) {}

  // Runs the kernel to its end; `parameters`: its parameters, packed. Throws Fault. Returns the number of thread instructions.
  uint64_t launch(const Module &module, const Kernel &kernel, const LaunchShape &shape, const std::byte *parameters);

private:
  DeviceMemory &memory;
  std::mt19937_64 random;
  bool races;
  uint64_t nextNumber = 1;
};

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_MACHINE_H
