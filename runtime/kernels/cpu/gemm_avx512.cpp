// SPDX-License-Identifier: Apache-2.0
//
// The gemm kernel for AVX-512F. 12 x 2 accumulators, 2 of B and some slack in 32 registers; A is broadcast by the multiply itself.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 16;
constexpr int kTileRows = 12;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/gemm_floats.inc"

} // namespace

const GemmKernel &gemmKernelAvx512() {
  static constexpr GemmKernel kernel = {{"avx512 12x32", kTileRows, kTileCols, kWorkspaceElements, compute}, order};
  return kernel;
}

} // namespace ashlar::rt
