// SPDX-License-Identifier: Apache-2.0
//
// The convolution kernels for AVX2 with FMA. Six row addresses and the panel's fit into the general registers.

#include "runtime/kernels/cpu/conv/conv_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 8;
constexpr int kTileRows = 6;
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/conv/conv_floats.inc"

} // namespace

const ConvKernels &convKernelsAvx2() {
  static constexpr ConvKernels kernels = {kernelOf<Floats, Floats>("avx2 6x16"), kernelOf<WidenedBf16, WidenedBf16>("avx2 6x16, widened"),
                                          kernelOf<WidenedF16, WidenedF16>("avx2 6x16, widened")};
  return kernels;
}

} // namespace ashlar::rt
