// SPDX-License-Identifier: Apache-2.0
//
// Copies bytes into the elements that kernels multiply, and puts the sums right.

#include "runtime/kernels/cpu/bytes.h"

#include "runtime/abi/memory_sizes.h"

#include <algorithm>
#include <cstring>

#include <sys/syscall.h>
#include <unistd.h>

namespace ashlar::rt {

namespace {

constexpr uint32_t kMoved = 0x80; // plus or minus 128 is the same bit of a byte

// Returns four bytes, `stride` apart, `count` of which exist; zeros for the others.
uint32_t four(const uint8_t *bytes, int64_t stride, int64_t count, uint32_t flipped) {
  uint32_t element = 0;
  if (stride == 1 && count >= 4) {
    std::memcpy(&element, bytes, sizeof(element)); // images are little-endian
    return element ^ flipped * 0x01010101;
  }
  for (int64_t i = 0; i < std::min<int64_t>(count, 4); ++i) {
    element |= (bytes[i * stride] ^ flipped) << (8 * i);
  }
  return element;
}

// Returns the sum of the bytes of an element.
uint32_t sumOf(uint32_t element) {
  element = (element & 0xff00ff) + (element >> 8 & 0xff00ff);
  return (element & 0xffff) + (element >> 16);
}

// Copies a row of A, k bytes that are `stride` apart, and returns the sum of what it copied.
uint32_t packRow(const uint8_t *a, int64_t stride, int64_t k, uint32_t flipped, uint32_t *row) {
  uint32_t sum = 0;
  for (int64_t p = 0; p < k; p += 4) {
    row[p / 4] = four(a + p * stride, stride, k - p, flipped);
    sum += sumOf(row[p / 4]);
  }
  return sum;
}

int64_t orderedElements(const ashlar_rt_gemm_desc &desc, const ByteKernel &kernel) {
  return ceilDiv(desc.n, kernel.tileCols) * kernel.tileCols * ceilDiv(desc.k, 4);
}

bool isSigned(const ashlar_rt_gemm_desc &desc, uint32_t operand) {
  return (desc.bytes & operand) != 0;
}

} // namespace

bool hasAmx() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM of asm/prctl.h, XFEATURE_XTILEDATA
  static const bool has = __builtin_cpu_supports("amx-int8") && __builtin_cpu_supports("avx512bw") &&
                          syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return has;
#else
  return false;
#endif
}

void orderBytes(const ashlar_rt_gemm_desc &desc, const ByteKernel &kernel, int64_t panel, const uint8_t *b, uint32_t *ordered) {
  const int64_t row = desc.transpose_b != 0 ? 1 : desc.n, col = desc.transpose_b != 0 ? desc.k : 1, width = kernel.tileCols;
  const uint32_t flipped = isSigned(desc, ASHLAR_RT_SIGNED_B) ? 0 : kMoved;
  const int64_t first = panel * width, rows = ceilDiv(desc.k, 4);
  uint32_t *begins = ordered + orderedElements(desc, kernel) + first;
  ordered += first * rows;
  for (int64_t j = 0; j < width; ++j) {
    uint32_t sum = 0; // of B as it is: each byte is the one that is stored, minus 128 where the sign bit, or its opposite, is clear
    for (int64_t p = 0; p < rows; ++p) {
      const bool exists = first + j < desc.n;
      const uint32_t element = exists ? four(b + 4 * p * row + (first + j) * col, row, desc.k - 4 * p, flipped) : 0;
      ordered[p * width + j] = element;
      for (int64_t i = 0; exists && i < std::min<int64_t>(4, desc.k - 4 * p); ++i) {
        sum += static_cast<uint32_t>(static_cast<int8_t>(element >> (8 * i))) + flipped;
      }
    }
    begins[j] = isSigned(desc, ASHLAR_RT_SIGNED_A) ? -128 * sum : 0;
  }
}

void multiplyBytes(const ashlar_rt_gemm_desc &desc, const ByteKernel &kernel, Range rows, Range cols, const uint8_t *a, const void *b,
                   uint32_t *out, void *workspace) {
  const int64_t k = ceilDiv(desc.k, 4), aRow = desc.transpose_a != 0 ? 1 : desc.k, aCol = desc.transpose_a != 0 ? desc.m : 1;
  const bool movesB = !isSigned(desc, ASHLAR_RT_SIGNED_B);
  const uint32_t flipped = isSigned(desc, ASHLAR_RT_SIGNED_A) ? kMoved : 0;
  auto *tiles = static_cast<uint32_t *>(workspace), *packed = tiles + kProductWorkspaceBytes / sizeof(uint32_t);
  const int64_t most = std::min<int64_t>(desc.m, kByteRows);
  uint32_t *sums = packed + most * k;
  const auto *ordered = static_cast<const uint32_t *>(b);
  if (desc.fixed_weights == 0) {
    uint32_t *own = sums + most;
    for (int64_t panel = cols.begin / kernel.tileCols; panel * kernel.tileCols < cols.end; ++panel) {
      orderBytes(desc, kernel, panel, static_cast<const uint8_t *>(b), own);
    }
    ordered = own;
  }
  BytePiece piece{};
  piece.cols = cols.end - cols.begin;
  piece.k = k;
  piece.a = packed;
  piece.aRow = k;
  piece.aCol = 1;
  piece.b = ordered + cols.begin * k;
  piece.isOrdered = true;
  piece.bias = ordered + orderedElements(desc, kernel) + cols.begin;
  piece.outRow = desc.n;
  for (int64_t begin = rows.begin; begin < rows.end; begin += kByteRows) {
    piece.rows = std::min<int64_t>(rows.end - begin, kByteRows);
    for (int64_t i = 0; i < piece.rows; ++i) {
      sums[i] = packRow(a + (begin + i) * aRow, aCol, desc.k, flipped, packed + i * k);
    }
    piece.out = out + begin * desc.n + cols.begin;
    kernel.compute(piece, tiles);
    for (int64_t i = 0; movesB && i < piece.rows; ++i) {
      for (int64_t j = 0; j < piece.cols; ++j) {
        piece.out[i * desc.n + j] += 128 * sums[i];
      }
    }
  }
}

} // namespace ashlar::rt
