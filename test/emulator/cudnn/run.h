// SPDX-License-Identifier: Apache-2.0
//
// A run of an execution plan.

#ifndef ASHLAR_TEST_EMULATOR_CUDNN_RUN_H
#define ASHLAR_TEST_EMULATOR_CUDNN_RUN_H

#include "test/emulator/cudnn/convolution.h"
#include "test/emulator/cudnn/graph.h"

namespace ashlar::emulator {

// A tensor of a run in memory of the device.
struct PlacedTensor {
  int64_t id, alignment;
  size_t bytes;
  bool isResult;
  CUdeviceptr address = 0;
};

// The memory of a run.
struct RunMemory {
  std::vector<PlacedTensor> tensors; // of a convolution by role
  std::map<int64_t, float> numbers;
  CUdeviceptr workspace = 0;
  uint64_t workspaceBytes = 0;
};

// Finds the memory of a run, and refuses memory that the plan was not made for.
cudnnStatus_t findMemory(Device &device, const Descriptor &plan, const Descriptor &pack, RunMemory &memory);

// Returns the run. It faults when another writes to its workspace meanwhile.
Work workOf(const Descriptor &plan, const RunMemory &memory);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_CUDNN_RUN_H
