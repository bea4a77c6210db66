// SPDX-License-Identifier: Apache-2.0
//
// The convolution kernels for any processor.

#include "runtime/kernels/cpu/conv/conv_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 4;
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/conv/conv_floats.inc"

} // namespace

const ConvKernels &convKernelsGeneric() {
  static constexpr ConvKernels kernels = {kernelOf<Floats, Floats>("generic 6x8"),
                                          kernelOf<WidenedBf16, WidenedBf16>("generic 6x8, widened"),
                                          kernelOf<WidenedF16, WidenedF16>("generic 6x8, widened")};
  return kernels;
}

} // namespace ashlar::rt
