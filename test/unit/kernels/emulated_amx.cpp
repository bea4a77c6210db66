// SPDX-License-Identifier: Apache-2.0
//
// Includes the kernel with other tile instructions: an access beyond a buffer is then one of plain C++, and sanitizers see it.

#include "test/unit/kernels/emulated_amx.h"

#include <cmath>
#include <cstring>

#include <immintrin.h>

namespace ashlar::rt {
namespace {

constexpr int kRows = 16, kNumbers = 32;

struct TileRegister {
  unsigned char bytes[kRows][64];
};

// As the processor has them: undefined until they are configured and loaded, all ones here.
struct Registers {
  TileRegister tiles[8];
  bool isConfigured = false;
};
thread_local Registers registers;

void configure(const void *config) {
  // Palette 1; eight tiles of 16 rows of 64 bytes.
  unsigned char bytes[64];
  std::memcpy(bytes, config, sizeof(bytes));
  registers.isConfigured = bytes[0] == 1 && bytes[1] == 0;
  for (int tile = 0; tile < 8; ++tile) {
    registers.isConfigured &= bytes[16 + 2 * tile] == 64 && bytes[17 + 2 * tile] == 0 && bytes[48 + tile] == kRows;
  }
  std::memset(registers.tiles, 0xff, sizeof(registers.tiles));
}

TileRegister &tile(int number) {
  if (!registers.isConfigured) {
    __builtin_trap();
  }
  return registers.tiles[number];
}

void clearTile(int number) {
  std::memset(tile(number).bytes, 0, sizeof(TileRegister));
}

void loadTile(int number, const void *base, int64_t stride) {
  for (int row = 0; row < kRows; ++row) {
    std::memcpy(tile(number).bytes[row], static_cast<const char *>(base) + row * stride, 64);
  }
}

void storeTile(int number, void *base, int64_t stride) {
  for (int row = 0; row < kRows; ++row) {
    std::memcpy(static_cast<char *>(base) + row * stride, tile(number).bytes[row], 64);
  }
}

float flushed(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}

float numberOf(const TileRegister &from, int row, int column) {
  uint16_t half;
  std::memcpy(&half, from.bytes[row] + 2 * column, sizeof(half));
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return flushed(value);
}

// TDPBF16PS: the even and the odd numbers of k are two chains, whose sum is added to the result.
void multiplyTiles(int out, int a, int b) {
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kRows; ++column) {
      float chains[2] = {};
      for (int k = 0; k < kNumbers; ++k) {
        chains[k % 2] = flushed(std::fma(numberOf(tile(a), row, k), numberOf(tile(b), k / 2, 2 * column + k % 2), chains[k % 2]));
      }
      float sum;
      std::memcpy(&sum, tile(out).bytes[row] + 4 * column, sizeof(sum));
      sum = flushed(flushed(sum) + flushed(chains[0] + chains[1]));
      std::memcpy(tile(out).bytes[row] + 4 * column, &sum, sizeof(sum));
    }
  }
}

} // namespace
} // namespace ashlar::rt

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) configure(config)
#define _tile_release() registers.isConfigured = false
#define _tile_loadd(number, base, stride) loadTile(number, base, stride)
#define _tile_stored(number, base, stride) storeTile(number, base, stride)
#define _tile_zero(number) clearTile(number)
#define _tile_dpbf16ps(out, a, b) multiplyTiles(out, a, b)
#define narrowKernelAmx emulatedAmxKernel

#include "runtime/kernels/cpu/gemm_amx.cpp"
