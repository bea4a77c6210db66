// SPDX-License-Identifier: Apache-2.0
//
// The convolution kernel for any processor.

#include "runtime/kernels/cpu/conv/conv_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 4;
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/conv/conv_tiles.inc"

} // namespace

const ConvKernel &convKernelGeneric() {
  static constexpr ConvKernel kernel = {"generic 6x8",      kLanes,   kTileRows,   kTileCols, pixels, depthwise, positions,
                                        depthwisePositions, packRows, packColumns, unpackRows};
  return kernel;
}

} // namespace ashlar::rt
