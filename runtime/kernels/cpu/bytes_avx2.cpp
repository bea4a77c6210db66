// SPDX-License-Identifier: Apache-2.0
//
// Products of bytes for AVX2: bytes 0 and 2, and 1 and 3, as integers of 16 bits, whose products are added up in pairs. Exact, where an
// instruction that takes bytes would cut off at 16 bits. The halves of B take registers, so the tile is lower than that of floats.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

using Element = uint32_t;
constexpr int kLanes = 8;
constexpr int kTileRows = 4;
constexpr int kTileVectors = 2;

struct Dot {
  template <typename Vector> static Vector add(Vector sum, Vector left, Vector right) {
    auto a = reinterpret_cast<__m256i>(left), b = reinterpret_cast<__m256i>(right);
    __m256i low = _mm256_set1_epi16(255);
    __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, low), _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
    return sum + reinterpret_cast<Vector>(_mm256_add_epi32(even, odd));
  }
};

#include "runtime/kernels/cpu/gemm_bytes.inc"

} // namespace

const ByteKernel &byteKernelAvx2() {
  static constexpr ByteKernel kernel = {"avx2 4x16", kTileRows, kTileCols, kWorkspaceElements, compute};
  return kernel;
}

} // namespace ashlar::rt
