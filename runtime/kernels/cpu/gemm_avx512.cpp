// SPDX-License-Identifier: Apache-2.0
//
// The gemm kernel for AVX-512F. 12 x 2 accumulators, 2 of B and some slack in 32 registers; A is broadcast by the multiply itself.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 16;
constexpr int kTileRows = 12;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/gemm_floats.inc"

#include "runtime/kernels/cpu/gemm_widened.inc"

} // namespace

const GemmKernel &gemmKernelAvx512() {
  static constexpr GemmKernel kernel = {{"avx512 12x32", kTileRows, kTileCols, kWorkspaceElements, compute}, order};
  return kernel;
}

const NarrowKernel &narrowKernelAvx512() {
  static constexpr NarrowKernel kernel = {"avx512 12x32, widened", kTileRows, kTileCols, computeWidened, orderNarrow<WidenedBf16>};
  return kernel;
}

} // namespace ashlar::rt
