// SPDX-License-Identifier: Apache-2.0
//
// The attention kernel for any processor. 6 x 2 accumulators of the 16 registers that every 64-bit processor has at least.

#include "runtime/kernels/cpu/attention/attention_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 4;
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/attention/attention_blocks.inc"

#include "runtime/kernels/cpu/attention/attention_few.inc"

} // namespace

const AttentionKernel &attentionKernelGeneric() {
  static constexpr AttentionKernel kernel = {"generic 6x8", forward, sumBlock, addSums, finishFew, backward};
  return kernel;
}

} // namespace ashlar::rt
