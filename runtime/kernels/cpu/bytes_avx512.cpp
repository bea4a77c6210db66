// SPDX-License-Identifier: Apache-2.0
//
// Products of bytes for AVX-512 with VNNI, whose one instruction is the Dot.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

using Element = uint32_t;
constexpr int kLanes = 16;
constexpr int kTileRows = 12;
constexpr int kTileVectors = 2;

struct Dot {
  template <typename Vector> static Vector add(Vector sum, Vector left, Vector right) {
    return reinterpret_cast<Vector>(
        _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(left), reinterpret_cast<__m512i>(right)));
  }
};

#include "runtime/kernels/cpu/gemm_bytes.inc"

} // namespace

const ByteKernel &byteKernelAvx512() {
  static constexpr ByteKernel kernel = {"avx512 vnni 12x32", kTileRows, kTileCols, kWorkspaceElements, compute};
  return kernel;
}

} // namespace ashlar::rt
