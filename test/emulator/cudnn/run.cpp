// SPDX-License-Identifier: Apache-2.0
//
// A run that has a workspace takes two steps of its task, so that others run between them: it writes a number of its own all over the
// workspace, and must find it there again before it computes.

#include "test/emulator/cudnn/run.h"

#include <algorithm>

namespace ashlar::emulator {
namespace {

constexpr size_t kWorkspaceAlignment = 256; // what cuMemAlloc gives: cuDNN does not say with how much less it does

bool isOnDevice(Device &device, CUdeviceptr address, uint64_t bytes) {
  const Allocation *allocation = device.memory.find(address);
  return allocation && allocation->owned && allocation->holds(address, bytes);
}

cudnnStatus_t checkOverlap(const Convolution &convolution, const RunMemory &memory) {
  const CUdeviceptr result = memory.tensors[convolution.result];
  const size_t resultBytes = convolution.tensors[convolution.result].bytes();
  const auto meet = [](CUdeviceptr a, size_t aBytes, CUdeviceptr b, size_t bBytes) { return a < b + bBytes && b < a + aBytes; };
  for (const Role role : {X, W, Y}) {
    const CUdeviceptr address = memory.tensors[role];
    const size_t bytes = convolution.tensors[role].bytes();
    if ((role != convolution.result && meet(address, bytes, result, resultBytes)) ||
        meet(address, bytes, memory.workspace, memory.workspaceBytes)) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "the result or the workspace overlaps a tensor");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

// The workspace as words.
uint64_t *findWorkspace(const RunMemory &memory) {
  return reinterpret_cast<uint64_t *>(
      Driver::get().mustResolve(memory.workspace, memory.workspaceBytes, "the workspace of a convolution was freed"));
}

} // namespace

cudnnStatus_t findMemory(Device &device, const Descriptor &plan, const Descriptor &pack, RunMemory &memory) {
  const auto ids = pack.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.list<CUdeviceptr>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (const Role role : {X, W, Y}) {
    const Tensor &tensor = plan.convolution->tensors[role];
    const auto found = std::find(ids.begin(), ids.end(), tensor.id);
    if (found == ids.end() || ids.size() != 3) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "the unique ids of a variant pack are not those of the three tensors");
    }
    memory.tensors[role] = pointers[size_t(found - ids.begin())];
    if (memory.tensors[role] % uint64_t(tensor.alignment) != 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is less aligned than its descriptor says");
    }
    if (!isOnDevice(device, memory.tensors[role], tensor.bytes())) {
      return refuse(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "a tensor is not in memory of the device");
    }
  }
  memory.workspaceBytes = uint64_t(plan.value<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  if (memory.workspaceBytes != 0) {
    const auto workspace = pack.list<CUdeviceptr>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    memory.workspace = workspace.empty() ? 0 : workspace[0];
    if (memory.workspace == 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the plan needs a workspace");
    }
    if (memory.workspace % kWorkspaceAlignment != 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the workspace is not aligned to 256 bytes");
    }
    if (!isOnDevice(device, memory.workspace, memory.workspaceBytes)) {
      return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
                    "the workspace is smaller than the plan needs, or not in memory of the device");
    }
  }
  return checkOverlap(*plan.convolution, memory);
}

Work workOf(const Descriptor &plan, const RunMemory &memory) {
  const auto compute = [convolution = plan.convolution, algorithm = plan.algorithm, memory] {
    convolve(*convolution, algorithm, memory.tensors);
  };
  if (memory.workspaceBytes == 0) {
    return once(compute);
  }
  return {[compute, memory]() -> Step {
    static uint64_t runs = 0;
    return [compute, memory, number = ~++runs, begun = false]() mutable { // NaNs in every format
      uint64_t *const words = findWorkspace(memory), *const end = words + memory.workspaceBytes / sizeof(uint64_t);
      if (!begun) {
        std::fill(words, end, number);
        begun = true;
        return false;
      }
      if (std::any_of(words, end, [&](uint64_t word) { return word != number; })) {
        throw Fault(Fault::LaunchFailure, "the workspace of a convolution was overwritten while it ran");
      }
      compute();
      return true;
    };
  }};
}

} // namespace ashlar::emulator
