// SPDX-License-Identifier: Apache-2.0
//
// The component of matrix products of integers of 8 bits.

#include "runtime/kernels/cpu/bytes.h"
#include "runtime/kernels/cpu/gemm_kernel.h"

namespace ashlar::rt {

const ByteKernel *ASHLAR_RT_COMPONENT(products_bytes)() {
#if defined(__x86_64__)
  if (hasAmx()) {
    return &byteKernelAmx();
  }
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) {
    return &byteKernelAvx512();
  }
  if (__builtin_cpu_supports("avx2")) {
    return &byteKernelAvx2();
  }
#endif
  return &byteKernelGeneric();
}

} // namespace ashlar::rt
