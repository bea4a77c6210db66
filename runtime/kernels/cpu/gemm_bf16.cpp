// SPDX-License-Identifier: Apache-2.0
//
// Products of bf16 for AVX-512 with its instruction of them, which adds two products to each lane: an element is two numbers of a row of A
// or a column of B.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 16;
constexpr int kTileRows = 12;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/vectors.inc"

#include "runtime/kernels/cpu/epilogue.inc"

#include "runtime/kernels/cpu/pairs.inc"

#include "runtime/kernels/cpu/gemm_tile.inc"

#include "runtime/kernels/cpu/narrow.inc"

#include "runtime/kernels/cpu/narrow_strips.inc"

#include "runtime/kernels/cpu/gemm_narrow.inc"

} // namespace

const NarrowKernel &narrowKernelAvx512Bf16() {
  static constexpr NarrowKernel kernel = {"avx512 bf16 12x32", kTileRows, kTileCols, computeNarrow<Pairs>, orderNarrow<Pairs>};
  return kernel;
}

} // namespace ashlar::rt
