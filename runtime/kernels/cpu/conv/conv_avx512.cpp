// SPDX-License-Identifier: Apache-2.0
//
// The convolution kernel for AVX-512F. Twelve row addresses, the panel's and a counter take 14 of the 15 general registers.

#include "runtime/kernels/cpu/conv/conv_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 16;
constexpr int kTileRows = 12;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/conv/conv_tiles.inc"

} // namespace

const ConvKernel &convKernelAvx512() {
  static constexpr ConvKernel kernel = {"avx512 12x32",     kLanes,   kTileRows,   kTileCols, pixels, depthwise, positions,
                                        depthwisePositions, packRows, packColumns, unpackRows};
  return kernel;
}

} // namespace ashlar::rt
