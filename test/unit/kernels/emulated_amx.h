// SPDX-License-Identifier: Apache-2.0
//
// The kernel of AMX for bf16 with its tile registers emulated, as Intel's manual describes the instructions: for processors without AMX.

#ifndef ASHLAR_TEST_UNIT_KERNELS_EMULATED_AMX_H
#define ASHLAR_TEST_UNIT_KERNELS_EMULATED_AMX_H

#include "runtime/kernels/cpu/gemm_kernel.h"

namespace ashlar::rt {

// Returns the kernel. Only to be run where the processor has AVX-512F.
const NarrowKernel &emulatedAmxKernel();

} // namespace ashlar::rt

#endif // ASHLAR_TEST_UNIT_KERNELS_EMULATED_AMX_H
