// SPDX-License-Identifier: Apache-2.0
//
// The gemm kernel for any processor. 6 x 2 accumulators of the 16 registers that every 64-bit processor has at least.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 4;
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/gemm_floats.inc"

#include "runtime/kernels/cpu/gemm_widened.inc"

} // namespace

const GemmKernel &gemmKernelGeneric() {
  static constexpr GemmKernel kernel = {{"generic 6x8", kTileRows, kTileCols, kWorkspaceElements, compute}, order};
  return kernel;
}

const NarrowKernel &narrowKernelGeneric() {
  static constexpr NarrowKernel kernel = {"generic 6x8, widened", kTileRows, kTileCols, computeWidened, orderNarrow<WidenedBf16>};
  return kernel;
}

} // namespace ashlar::rt
