// SPDX-License-Identifier: Apache-2.0
//
// Products of bytes for any processor.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

namespace {

using Element = uint32_t;
constexpr int kLanes = 4;
constexpr int kTileRows = 4;
constexpr int kTileVectors = 2;

struct Dot {
  template <typename Vector> static Vector add(Vector sum, Vector left, Vector right) {
    using Signed = int32_t __attribute__((vector_size(sizeof(Vector))));
    for (int bits = 0; bits < 32; bits += 8) {
      auto byte = reinterpret_cast<Signed>(right << (24 - bits)) >> 24;
      sum += (left >> bits & 255) * reinterpret_cast<Vector>(byte);
    }
    return sum;
  }
};

#include "runtime/kernels/cpu/gemm_bytes.inc"

} // namespace

const ByteKernel &byteKernelGeneric() {
  static constexpr ByteKernel kernel = {"generic 4x8", kTileRows, kTileCols, kWorkspaceElements, compute};
  return kernel;
}

} // namespace ashlar::rt
