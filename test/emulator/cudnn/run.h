// SPDX-License-Identifier: Apache-2.0
//
// A run of an execution plan.

#ifndef ASHLAR_TEST_EMULATOR_CUDNN_RUN_H
#define ASHLAR_TEST_EMULATOR_CUDNN_RUN_H

#include "test/emulator/cudnn/convolution.h"

namespace ashlar::emulator {

// The memory of a run.
struct RunMemory {
  CUdeviceptr tensors[3] = {}; // by role
  CUdeviceptr workspace = 0;
  uint64_t workspaceBytes = 0;
};

// Finds the memory of a run, and refuses memory that the plan was not made for.
cudnnStatus_t findMemory(Device &device, const Descriptor &plan, const Descriptor &pack, RunMemory &memory);

// Returns the run. It faults when another writes to its workspace meanwhile.
Work workOf(const Descriptor &plan, const RunMemory &memory);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_CUDNN_RUN_H
