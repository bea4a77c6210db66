// SPDX-License-Identifier: Apache-2.0
//
// The attention kernel for AVX2 with FMA. 6 x 2 accumulators, 2 of the right operand and 1 broadcast fill 15 of the 16 registers.

#include "runtime/kernels/cpu/attention/attention_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 8;
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/attention/attention_blocks.inc"

#include "runtime/kernels/cpu/attention/attention_few.inc"

} // namespace

const AttentionKernel &attentionKernelAvx2() {
  static constexpr AttentionKernel kernel = {"avx2 6x16", forward, sumBlock, addSums, finishFew, backward};
  return kernel;
}

} // namespace ashlar::rt
