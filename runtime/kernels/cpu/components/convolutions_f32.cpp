// SPDX-License-Identifier: Apache-2.0
//
// The component of convolutions of f32.

#include "runtime/kernels/cpu/conv/conv_kernel.h"
#include "runtime/kernels/cpu/parts.h"

namespace ashlar::rt {

const ConvKernel *ASHLAR_RT_COMPONENT(convolutions_f32)() {
#if defined(__x86_64__)
  return &chooseKernel(convKernelsGeneric, convKernelsAvx2, convKernelsAvx512).f32;
#else
  return &convKernelsGeneric().f32;
#endif
}

} // namespace ashlar::rt
