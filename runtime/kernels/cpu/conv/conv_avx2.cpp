// SPDX-License-Identifier: Apache-2.0
//
// The convolution kernel for AVX2 with FMA. Six row addresses and the panel's fit into the general registers.

#include "runtime/kernels/cpu/conv/conv_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 8;
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/conv/conv_tiles.inc"

} // namespace

const ConvKernel &convKernelAvx2() {
  static constexpr ConvKernel kernel = {"avx2 6x16",        kLanes,   kTileRows,   kTileCols, pixels, depthwise, positions,
                                        depthwisePositions, packRows, packColumns, unpackRows};
  return kernel;
}

} // namespace ashlar::rt
