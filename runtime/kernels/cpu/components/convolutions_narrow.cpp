// SPDX-License-Identifier: Apache-2.0
//
// The component of convolutions of bf16 and f16.

#include "runtime/kernels/cpu/conv/conv_kernel.h"
#include "runtime/kernels/cpu/parts.h"

namespace ashlar::rt {

const ConvKernel *ASHLAR_RT_COMPONENT(convolutions_narrow)(bool isF16) {
#if defined(__x86_64__)
  if (!isF16 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw")) {
    return &convKernelAvx512Bf16();
  }
  const ConvKernels &kernels = chooseKernel(convKernelsGeneric, convKernelsAvx2, convKernelsAvx512);
#else
  const ConvKernels &kernels = convKernelsGeneric();
#endif
  return isF16 ? &kernels.f16 : &kernels.bf16;
}

} // namespace ashlar::rt
