// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of cuDNN's backend API, made as the runtime makes them, with every part open to tests that spoil it.

#ifndef ASHLAR_TEST_UNIT_EMULATOR_CUDNN_CALL_H
#define ASHLAR_TEST_UNIT_EMULATOR_CUDNN_CALL_H

#include "test/unit/emulator/device_values.h"

#include <cudnn.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::emulator_test {

// A descriptor, destroyed with the part.
class Part {
public:
  explicit Part(cudnnBackendDescriptorType_t kind);
  ~Part();
  Part(Part &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  Part &operator=(Part &&other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }

  template <class T>
  cudnnStatus_t set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T> &values) const {
    return cudnnBackendSetAttribute(handle, name, type, int64_t(values.size()), values.data());
  }
  cudnnStatus_t set(cudnnBackendAttributeName_t name, const Part &part) const {
    return cudnnBackendSetAttribute(handle, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part.handle);
  }
  // Returns up to `most` elements of a finalized part.
  template <class T> std::vector<T> get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    if (cudnnBackendGetAttribute(handle, name, type, most, &most, values.data()) != CUDNN_STATUS_SUCCESS) {
      return {};
    }
    values.resize(static_cast<size_t>(most));
    return values;
  }
  cudnnStatus_t finalize() const { return cudnnBackendFinalize(handle); }

  cudnnBackendDescriptor_t handle;
};

// The refused part (empty when none was), and its status.
using Refusal = std::pair<std::string, cudnnStatus_t>;
const Refusal kTaken("", CUDNN_STATUS_SUCCESS);

enum Tensors { X, W, Y };

struct Call {
  // Dims (n, c, [d,] h, w) of x, (k, c, [d,] r, s) of w; the dims of y follow from them.
  Call(Tensors result, std::vector<int64_t> x, std::vector<int64_t> w, std::vector<int64_t> padding, std::vector<int64_t> stride,
       std::vector<int64_t> dilation);

  // Sets the type of all tensors.
  Call &typed(cudnnDataType_t type);
  // Makes everything up to the engine configurations.
  Refusal prepare();
  // Makes the plan of an engine configuration.
  Refusal plan(size_t config, Part &result) const;
  // Runs a plan on addresses of x, w and y.
  Refusal run(const Part &plan, const std::vector<CUdeviceptr> &addresses, CUdeviceptr workspace) const;
  std::vector<cudnnBackendNumericalNote_t> notes(size_t config) const;

  Tensors result;
  std::vector<int64_t> dims[3], strides[3];
  cudnnDataType_t types[3] = {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT};
  std::vector<int64_t> ids = {1, 2, 3};
  int64_t alignment = 64;
  std::vector<int64_t> before, after, stride, dilation;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnConvolutionMode_t direction = CUDNN_CROSS_CORRELATION;
  float alpha = 1, beta = 0;
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  cudnnHandle_t handle;
  std::vector<std::shared_ptr<Part>> configs;
};

// Returns a call that every engine takes.
Call good(Tensors result = Y);

constexpr size_t kWorkspace = 1 << 20; // of a plan to choose

// x, w and y of a call on the device, and a workspace.
struct Operands {
  explicit Operands(const Call &call, cudaDataType type = CUDA_R_32F);

  std::array<emulator::Values, 3> values;
  std::vector<CUdeviceptr> addresses;
  CUdeviceptr workspace;
};

// Prepares a call and the plan of an engine configuration.
Part planOf(Call &call, size_t config);
// The same with the last one, which is the one to choose.
Part lastPlan(Call &call);

CUdeviceptr allocate(size_t bytes);
size_t volume(const std::vector<int64_t> &dims);

// Returns the handle of the tests, after which the first device is current.
cudnnHandle_t cudnnHandle();

// Returns dense strides of (n, c, [d,] h, w), channels last.
std::vector<int64_t> channelsLast(const std::vector<int64_t> &dims);

} // namespace ashlar::emulator_test

#endif // ASHLAR_TEST_UNIT_EMULATOR_CUDNN_CALL_H
