// SPDX-License-Identifier: Apache-2.0
//
// The gemm kernel for AVX2 with FMA. 6 x 2 accumulators, 2 of B and 1 broadcast fill 15 of the 16 registers.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 8;
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/gemm_floats.inc"

#include "runtime/kernels/cpu/gemm_widened.inc"

} // namespace

const GemmKernel &gemmKernelAvx2() {
  static constexpr GemmKernel kernel = {{"avx2 6x16", kTileRows, kTileCols, kWorkspaceElements, compute}, order};
  return kernel;
}

const NarrowKernel &narrowKernelAvx2() {
  static constexpr NarrowKernel kernel = {"avx2 6x16, widened", kTileRows, kTileCols, computeWidened, orderNarrow<WidenedBf16>};
  return kernel;
}

} // namespace ashlar::rt
