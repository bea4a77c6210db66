// SPDX-License-Identifier: Apache-2.0
//
// The attention kernel for AVX-512F. 12 x 2 accumulators, 2 of the right operand and some slack in 32 registers.

#include "runtime/kernels/cpu/attention/attention_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 16;
constexpr int kTileRows = 12;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/attention/attention_blocks.inc"

#include "runtime/kernels/cpu/attention/attention_few.inc"

} // namespace

const AttentionKernel &attentionKernelAvx512() {
  static constexpr AttentionKernel kernel = {"avx512 12x32", forward, sumBlock, addSums, finishFew, backward};
  return kernel;
}

} // namespace ashlar::rt
