// SPDX-License-Identifier: Apache-2.0
//
// Kernels that do to the result of a product what an epilogue of cuBLASLt would have done: they take its place where the library refuses an
// epilogue with an auxiliary tensor. PTX, written here and compiled by the driver when a program first wants one of them.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_ACTIVATION_KERNELS_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_ACTIVATION_KERNELS_H

#include "runtime/device/cuda/device.h"

#include <cstdint>
#include <map>
#include <string>

namespace ashlar::rt {

// The work of a kernel on `values` (m, n) and `other`, an auxiliary tensor or an activation. Numbers are read and written in their type,
// computed in f32.
enum class ActivationWork {
  ReluMask,  // other = a bit for each value, 1 where it is greater than 0: bit j of byte c of a row is of column 8 c + j
  ReluSlope, // values = values where the bit in other is 1, else 0
  Gelu,      // values = gelu(other), in the tanh form
  GeluSlope  // values = values * gelu'(other)
};

// A kernel with its operands. `dtype`: f32, bf16 or f16. n is a multiple of 8. `maskRow`: bytes of a row of a mask.
struct ActivationCall {
  ActivationWork work = ActivationWork::ReluMask;
  uint32_t dtype = ASHLAR_RT_F32;
  CUdeviceptr values = 0, other = 0;
  int64_t m = 0, n = 0, maskRow = 0;
};

// Returns the PTX of all kernels for a type.
std::string activationPtx(uint32_t dtype);

class ActivationKernels {
public:
  // Loads the kernels of the call's type, unless they are. `device` outlives the kernels.
  Status prepare(CudaDevice &device, const ActivationCall &call);

  // Puts a kernel on the stream. Assumes that its type was prepared.
  Status enqueue(const ActivationCall &call, CUstream stream) const;

private:
  CudaDevice *gpu = nullptr;
  std::map<std::pair<uint32_t, ActivationWork>, CUfunction> kernels;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_ACTIVATION_KERNELS_H
