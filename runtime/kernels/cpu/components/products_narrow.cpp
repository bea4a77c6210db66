// SPDX-License-Identifier: Apache-2.0
//
// The component of matrix products of bf16 and f16.

#include "runtime/kernels/cpu/bytes.h"
#include "runtime/kernels/cpu/gemm_kernel.h"
#include "runtime/kernels/cpu/parts.h"

namespace ashlar::rt {

const NarrowKernel *ASHLAR_RT_COMPONENT(products_narrow)([[maybe_unused]] bool isF16) {
#if defined(__x86_64__)
  if (!isF16 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw")) {
    return hasAmx() && __builtin_cpu_supports("amx-bf16") ? &narrowKernelAmx() : &narrowKernelAvx512Bf16();
  }
  return &chooseKernel(narrowKernelGeneric, narrowKernelAvx2, narrowKernelAvx512);
#else
  return &narrowKernelGeneric();
#endif
}

} // namespace ashlar::rt
