// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of integers of 8 bits, for gemm.cpp. Kernels multiply unsigned numbers on the left and signed ones on the right: other
// operands are shifted by 128, and the sums corrected by
//
//   sum of A B = sum of (A + 128) B - 128 sum of B             where A is signed: one number a column, with which the sums begin
//   sum of A B = sum of A (B - 128) + 128 sum of A             where B is unsigned: one number a row, added at the end
//
// and both where both are, with A + 128 for A in the second. All modulo 2^32.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_BYTES_H
#define ASHLAR_RUNTIME_KERNELS_CPU_BYTES_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/kernels/cpu/gemm_kernel.h"
#include "runtime/kernels/cpu/parts.h"

namespace ashlar::rt {

// Returns whether this process can use the tile registers of AMX: it asks Linux for them, the first time.
bool hasAmx();

// Orders panel `panel` of one matrix B: four bytes of k at a time in `ordered`, all panels of the matrix, behind which are the numbers that
// the sums of its columns begin with.
void orderBytes(const ashlar_rt_gemm_desc &desc, const ByteKernel &kernel, int64_t panel, const uint8_t *b, uint32_t *ordered);

// Computes rows x cols of one matrix `out`; cols begin at a panel. `b` is ordered where weights are fixed. `workspace` has
// productWorkspaceBytes(desc), aligned to ASHLAR_RT_ALIGNMENT.
void multiplyBytes(const ashlar_rt_gemm_desc &desc, const ByteKernel &kernel, Range rows, Range cols, const uint8_t *a, const void *b,
                   uint32_t *out, void *workspace);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_BYTES_H
