// SPDX-License-Identifier: Apache-2.0
//
// A descriptor of cuDNN's graph API, owned: made, given its attributes, and finalized.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_DESCRIPTOR_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_DESCRIPTOR_H

#include "runtime/kernels/cuda/cudnn_library.h"

#include <utility>
#include <vector>

namespace ashlar::rt {

// Of every buffer, as far as engines ask.
constexpr int64_t kOperandAlignment = 16;

class CudnnDescriptor {
public:
  explicit CudnnDescriptor(const CudnnLibrary &dnn) : dnn(&dnn) {}
  CudnnDescriptor(CudnnDescriptor &&other) noexcept : dnn(other.dnn), handle(std::exchange(other.handle, nullptr)) {}
  CudnnDescriptor &operator=(CudnnDescriptor &&other) noexcept {
    std::swap(dnn, other.dnn);
    std::swap(handle, other.handle);
    return *this;
  }
  ~CudnnDescriptor() {
    if (handle != nullptr) {
      dnn->cudnnBackendDestroyDescriptor(handle);
    }
  }

  Status create(cudnnBackendDescriptorType_t type) {
    return dnn->check(dnn->cudnnBackendCreateDescriptor(type, &handle), "cannot describe a graph of cuDNN");
  }

  // Sets an attribute of one value, of several, or of other descriptors.
  template <typename Value> Status set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value &value) {
    return set(name, type, 1, &value);
  }
  template <typename Value>
  Status set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<Value> &values) {
    return set(name, type, static_cast<int64_t>(values.size()), values.data());
  }
  Status set(cudnnBackendAttributeName_t name, const CudnnDescriptor &other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle);
  }

  // Returns the library's status: an unsupported feature is no failure of the caller.
  cudnnStatus_t finalize() { return dnn->cudnnBackendFinalize(handle); }

  cudnnBackendDescriptor_t get() const { return handle; }

private:
  Status set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    return dnn->check(dnn->cudnnBackendSetAttribute(handle, name, type, count, values), "cannot describe a graph of cuDNN");
  }

  const CudnnLibrary *dnn;
  cudnnBackendDescriptor_t handle = nullptr;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_DESCRIPTOR_H
