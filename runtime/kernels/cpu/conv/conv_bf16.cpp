// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of bf16 for AVX-512 with its instruction of them, which adds two products to each lane: an element is two channels of a
// pixel, or in a weight gradient two positions of a channel. As in gemm_bf16.cpp, the second number of a pair comes first, and numbers
// below 2^-126 count as 0. Depthwise convolutions have no neighbours along a chain: they are widened.

#include "runtime/kernels/cpu/conv/conv_kernel.h"

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

#include "runtime/kernels/cpu/narrow.inc"

#include "runtime/kernels/cpu/conv/conv_tiles.inc"

} // namespace

const ConvKernel &convKernelAvx512Bf16() {
  static constexpr ConvKernel kernel = kernelOf<Pairs, WidenedBf16>("avx512 bf16 12x32");
  return kernel;
}

} // namespace ashlar::rt
