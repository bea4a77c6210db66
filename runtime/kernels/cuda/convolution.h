// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of a compiled program on a GPU, by cuDNN's graph API. A convolution is prepared once, its engine the first in the library's
// own order that computes what the compiler promises, and then put on a stream any number of times without allocating.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cuda/cudnn_library.h"

#include <cuda.h>

#include <memory>
#include <vector>

namespace ashlar::rt {

// The operands of a convolution, in the order of its buffers: addresses on the device, and their type.
struct ConvolutionOperands {
  CUdeviceptr first = 0, second = 0, out = 0;
  uint32_t dtype = ASHLAR_RT_F32;
};

// Sorts the buffers of an instruction, whose addresses are given, into operands. Fails when number, sizes or types do not fit the desc.
Status sortConvolutionOperands(const ashlar_rt_instr &instr, const std::vector<CUdeviceptr> &addresses, ConvolutionOperands &operands);

// The convolutions of one device. Owns the library's handle. Used by one thread.
class Convolutions {
public:
  Convolutions();
  ~Convolutions();
  Convolutions(const Convolutions &) = delete;
  Convolutions &operator=(const Convolutions &) = delete;

  // Loads the library. Assumes that the device's context is current. `workspace`: kConvolutionWorkspaceBytes of device memory.
  Status create(CUdeviceptr workspace);

  // Lays out a convolution and returns its number. Equal ones share the engine. `name` is what an error calls it.
  Status prepare(const ashlar_rt_conv_desc &desc, const ConvolutionOperands &operands, const char *name, size_t &number);

  // Puts a convolution on the stream.
  Status enqueue(size_t number, CUstream stream) const;

private:
  struct Plan;
  struct Prepared;

  CudnnLibrary dnn;
  cudnnHandle_t handle = nullptr;
  CUdeviceptr workspace = 0;
  std::vector<std::unique_ptr<Plan>> plans; // one for each distinct convolution
  std::vector<std::unique_ptr<Prepared>> prepared;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_H
