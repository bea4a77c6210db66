// SPDX-License-Identifier: Apache-2.0
//
// The convolution kernels for AVX-512F. Twelve row addresses, the panel's and a counter take 14 of the 15 general registers.

#include "runtime/kernels/cpu/conv/conv_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 16;
constexpr int kTileRows = 12;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/conv/conv_floats.inc"

} // namespace

const ConvKernels &convKernelsAvx512() {
  static constexpr ConvKernels kernels = {kernelOf<Floats, Floats>("avx512 12x32"),
                                          kernelOf<WidenedBf16, WidenedBf16>("avx512 12x32, widened"),
                                          kernelOf<WidenedF16, WidenedF16>("avx512 12x32, widened")};
  return kernels;
}

} // namespace ashlar::rt
