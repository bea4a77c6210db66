// SPDX-License-Identifier: Apache-2.0
//
// The component of attention.

#include "runtime/kernels/cpu/attention/attention_kernel.h"
#include "runtime/kernels/cpu/parts.h"

namespace ashlar::rt {

const AttentionKernel *ASHLAR_RT_COMPONENT(attention)() {
#if defined(__x86_64__)
  return &chooseKernel(attentionKernelGeneric, attentionKernelAvx2, attentionKernelAvx512);
#else
  return &attentionKernelGeneric();
#endif
}

} // namespace ashlar::rt
