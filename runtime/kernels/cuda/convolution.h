// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of a compiled program on a GPU, by cuDNN's graph API. A convolution is prepared once, with the first engine in the library's
// own order that keeps the compiler's promises, and then put on a stream any number of times without allocating. The user may waive
// promises that no engine keeps (ASHLAR_CUDNN_RELAX).

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/memory_sizes.h"
#include "runtime/device/cuda/device.h"
#include "runtime/kernels/cuda/convolution_plan.h"

#include <memory>
#include <string>
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

  // Loads the library, and reads ASHLAR_CUDNN_RELAX. Assumes that the context of the device, which outlives the convolutions, is current.
  // `workspace`: kConvolutionWorkspaceBytes of device memory.
  Status create(CudaDevice &gpu, CUdeviceptr workspace);

  // Lays out a convolution and returns its number. Equal ones share the engine. `name` is its name in an error.
  Status prepare(const ashlar_rt_conv_desc &desc, const ConvolutionOperands &operands, const char *name, size_t &number);

  // Makes prepared convolutions ready to run. Takes memory where a chosen engine needs more than the plan has.
  Status finish();

  // Puts a convolution on the stream. Assumes finish().
  Status enqueue(size_t number, CUstream stream) const;

  // Returns the plan that prepare() asked for last, whether it found an engine or not; null: none.
  ConvolutionPlan *lastPlan() const { return last; }

  // Returns a line for each engine that was taken in spite of a promise that it breaks.
  const std::vector<std::string> &relaxed() const { return warnings; }

  // Returns the bytes that finish() took.
  uint64_t extraBytes() const { return extra; }

private:
  struct Prepared;

  void noteRelaxations(const ConvolutionPlan &plan, const char *name);
  Status describe(Prepared &each) const;

  CudaDevice *device = nullptr;
  CudnnLibrary dnn;
  cudnnHandle_t handle = nullptr;
  CUdeviceptr workspace = 0;
  uint32_t relaxations = 0;
  uint64_t extra = 0;
  std::vector<std::unique_ptr<ConvolutionPlan>> plans; // one for each distinct convolution
  ConvolutionPlan *last = nullptr;
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::vector<std::string> warnings;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_H
