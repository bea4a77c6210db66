// SPDX-License-Identifier: Apache-2.0
//
// The component of matrix products of f32.

#include "runtime/kernels/cpu/gemm_kernel.h"
#include "runtime/kernels/cpu/parts.h"

namespace ashlar::rt {

const GemmKernel *ASHLAR_RT_COMPONENT(products_f32)() {
#if defined(__x86_64__)
  return &chooseKernel(gemmKernelGeneric, gemmKernelAvx2, gemmKernelAvx512);
#else
  return &gemmKernelGeneric();
#endif
}

} // namespace ashlar::rt
