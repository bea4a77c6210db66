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

cudnnStatus_t checkOverlap(const RunMemory &memory) {
  const auto meet = [](CUdeviceptr a, size_t aBytes, CUdeviceptr b, size_t bBytes) { return a < b + bBytes && b < a + aBytes; };
  for (const PlacedTensor &tensor : memory.tensors) {
    for (const PlacedTensor &result : memory.tensors) {
      if (result.isResult && result.id != tensor.id && meet(tensor.address, tensor.bytes, result.address, result.bytes)) {
        return refuse(CUDNN_STATUS_BAD_PARAM, "a result overlaps a tensor");
      }
    }
    if (meet(tensor.address, tensor.bytes, memory.workspace, memory.workspaceBytes)) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "the workspace overlaps a tensor");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

// Returns the tensors of a plan that are in memory.
std::vector<PlacedTensor> tensorsOf(const Descriptor &plan) {
  std::vector<PlacedTensor> tensors;
  if (plan.composed) {
    for (const GraphTensor &tensor : plan.composed->tensorsAt(Place::Memory)) {
      tensors.push_back({tensor.id, tensor.alignment, tensor.bytes(), plan.composed->isResult(tensor.id)});
    }
    return tensors;
  }
  for (const Role role : {X, W, Y}) {
    const Tensor &tensor = plan.convolution->tensors[role];
    tensors.push_back({tensor.id, tensor.alignment, tensor.bytes(), role == plan.convolution->result});
  }
  return tensors;
}

// The workspace as words.
uint64_t *findWorkspace(const RunMemory &memory) {
  return reinterpret_cast<uint64_t *>(
      Driver::get().mustResolve(memory.workspace, memory.workspaceBytes, "the workspace of a plan was freed"));
}

} // namespace

cudnnStatus_t findMemory(Device &device, const Descriptor &plan, const Descriptor &pack, RunMemory &memory) {
  const auto ids = pack.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.list<CUdeviceptr>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  memory.tensors = tensorsOf(plan);
  const std::vector<GraphTensor> numbers = plan.composed ? plan.composed->tensorsAt(Place::Host) : std::vector<GraphTensor>();
  const auto pointerOf = [&](int64_t id) {
    const auto found = std::find(ids.begin(), ids.end(), id);
    return found == ids.end() ? 0 : pointers[size_t(found - ids.begin())];
  };
  if (ids.size() != memory.tensors.size() + numbers.size()) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the unique ids of a variant pack are not those of the graph");
  }
  for (const GraphTensor &number : numbers) {
    const CUdeviceptr pointer = pointerOf(number.id);
    if (pointer == 0 || isOnDevice(device, pointer, sizeof(float))) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "a number is not in memory of the host");
    }
    memory.numbers[number.id] = *reinterpret_cast<const float *>(pointer);
  }
  for (PlacedTensor &tensor : memory.tensors) {
    tensor.address = pointerOf(tensor.id);
    if (tensor.address == 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "the unique ids of a variant pack are not those of the graph");
    }
    if (tensor.address % uint64_t(tensor.alignment) != 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is less aligned than its descriptor says");
    }
    if (!isOnDevice(device, tensor.address, tensor.bytes)) {
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
  return checkOverlap(memory);
}

Work workOf(const Descriptor &plan, const RunMemory &memory) {
  const auto compute = [convolution = plan.convolution, composed = plan.composed, algorithm = plan.algorithm, memory] {
    if (composed) {
      std::map<int64_t, CUdeviceptr> addresses;
      for (const PlacedTensor &tensor : memory.tensors) {
        addresses[tensor.id] = tensor.address;
      }
      return evaluate(*composed, algorithm, addresses, memory.numbers);
    }
    convolve(*convolution, algorithm, {memory.tensors[X].address, memory.tensors[W].address, memory.tensors[Y].address});
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
        throw Fault(Fault::LaunchFailure, "the workspace of a plan was overwritten while it ran");
      }
      compute();
      return true;
    };
  }};
}

} // namespace ashlar::emulator
