// SPDX-License-Identifier: Apache-2.0
//
// Products of bf16 in the tile registers of AMX: 16 rows of 16 elements, each two numbers. 32 elements of k at a time: the products of
// their even and of their odd numbers are two chains of fused multiply-adds, whose sum is added to `out`; numbers below 2^-126 count as 0.
// Blocks of k are multiples of these, so that this order does not depend on them.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

using Element = float;
constexpr int kLanes = 16;
constexpr int kTileRows = 32; // two tiles of `out` on top of each other
constexpr int kTileVectors = 2;

#include "runtime/kernels/cpu/vectors.inc"

#include "runtime/kernels/cpu/epilogue.inc"

#include "runtime/kernels/cpu/narrow.inc"

constexpr int64_t kUnitK = 16, kUnitRows = 16;
constexpr int64_t kTileElements = kUnitRows * kUnitK;

// One strip of `out` times one panel, over one block of k: as in gemm_tile.inc, but A lies in tiles, and all of a tile's rows are written.
struct Tile {
  const float *a;
  const float *b;
  int64_t bRow;
  const float *fetched;
  int64_t fetchedRow;
  int64_t k;
  const float *bias;
  float *out;
  int64_t outRow;
  bool first, last;
  uint32_t epilogue;
};

enum class Source { Strided, Packed, Ordered }; // never the first

int64_t stripOf(int64_t) {
  return kTileRows;
}

// Copies k elements of 16 rows at a time into tiles, a row of 16 elements behind the other, those of the same rows behind each other; zeros
// where there is no element.
template <typename Format> void packRowsFor(const NarrowBlock &a, int64_t rows, int64_t, int64_t k, float *packed) {
  for (int64_t i = 0; i < rows; i += kUnitRows) {
    const int64_t count = least(rows - i, kUnitRows);
    for (int64_t p = 0; p < k; p += kUnitK, packed += kTileElements) {
      const NarrowBlock block = {a.from + 2 * p * a.row + i * a.col, a.row, a.col, a.k - 2 * p};
      float columns[kTileElements];
      if (block.row == 1 && block.k >= 2 * kUnitK) {
        for (int64_t row = 0; row < kUnitRows; ++row) {
          if (row < count) {
            __builtin_memcpy(packed + row * kUnitK, block.from + row * block.col, kUnitK * sizeof(float));
          } else {
            __builtin_memset(packed + row * kUnitK, 0, kUnitK * sizeof(float));
          }
        }
        continue;
      }
      packElements<Format>(block, kUnitK, 0, count, kUnitRows, columns);
      for (int64_t row = 0; row < kUnitRows; row += 4) {
        float *to = packed + row * kUnitK;
        int64_t at = 0; // rows of `columns` become columns of the tile, of four rows of it
        for (int64_t p0 = 0; p0 < kUnitK; p0 += 4, at += 4) {
          Four four[4];
          for (int64_t n = 0; n < 4; ++n) {
            __builtin_memcpy(&four[n], columns + (p0 + n) * kUnitRows + row, sizeof(Four));
          }
          transpose(four);
          for (int64_t n = 0; n < 4; ++n) {
            __builtin_memcpy(to + n * kUnitK + at, &four[n], sizeof(Four));
          }
        }
      }
    }
  }
}

template <typename Format> Source findOperands(const NarrowPiece &piece, Tile &) {
  return piece.isOrdered ? Source::Ordered : Source::Packed;
}

// What LDTILECFG reads: all eight tiles are whole.
struct alignas(64) TileConfig {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Begins a tile of `out`, or stores it. The register is a constant of the instruction.
template <int Register> void begin(const Tile &tile, int64_t row, int64_t col) {
  if (!tile.first) {
    _tile_loadd(Register, tile.out + row * tile.outRow + col, tile.outRow * sizeof(float));
  } else if (tile.bias != nullptr) {
    _tile_loadd(Register, tile.bias + col, 0); // the same row 16 times
  } else {
    _tile_zero(Register);
  }
}
template <int Register> void end(const Tile &tile, int64_t row, int64_t col) {
  _tile_stored(Register, tile.out + row * tile.outRow + col, tile.outRow * sizeof(float));
}

// Adds up in the registers 0 and 1, and 2 and 3 for the lower rows.
template <bool Lower, bool Right> void addProducts(const Tile &tile) {
  constexpr int64_t line = kUnitK * sizeof(float);
  const int64_t steps = tile.k / kUnitK, row = tile.bRow * static_cast<int64_t>(sizeof(float));
  const float *fetched = tile.fetched;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < tile.fetchedRow; ++i, fetched += kUnitK) { // of 16 rows, a line of 16 elements each
      __builtin_prefetch(fetched, /*rw=*/0, /*locality=*/2);
    }
    const float *a = tile.a + step * kTileElements, *b = tile.b + step * kUnitK * tile.bRow;
    _tile_loadd(4, a, line);
    _tile_loadd(6, b, row);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Right) {
      _tile_loadd(7, b + kLanes, row);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (Lower) {
      _tile_loadd(5, a + steps * kTileElements, line);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (Right) {
        _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
}

template <bool Lower, bool Right> void computeTile(const Tile &tile) {
  begin<0>(tile, 0, 0);
  if constexpr (Right) {
    begin<1>(tile, 0, kLanes);
  }
  if constexpr (Lower) {
    begin<2>(tile, kUnitRows, 0);
    if constexpr (Right) {
      begin<3>(tile, kUnitRows, kLanes);
    }
  }
  addProducts<Lower, Right>(tile);
  end<0>(tile, 0, 0);
  if constexpr (Right) {
    end<1>(tile, 0, kLanes);
  }
  if constexpr (Lower) {
    end<2>(tile, kUnitRows, 0);
    if constexpr (Right) {
      end<3>(tile, kUnitRows, kLanes);
    }
  }
}

// Computes rows x vectors of `out`, of which the rows are rounded up to whole tiles.
void dispatch(int64_t rows, int64_t vectors, Source, const Tile &tile) {
  if (rows > kUnitRows) {
    vectors > 1 ? computeTile<true, true>(tile) : computeTile<true, false>(tile);
  } else {
    vectors > 1 ? computeTile<false, true>(tile) : computeTile<false, false>(tile);
  }
  if (tile.last && tile.epilogue != ASHLAR_RT_EPILOGUE_NONE) {
    for (int64_t i = 0; i < rows; ++i) {
      applyEpilogue(tile.epilogue, tile.out + i * tile.outRow, vectors * kLanes);
    }
  }
}

#include "runtime/kernels/cpu/gemm_narrow.inc"

void compute(const NarrowPiece &piece, float *workspace) {
  const TileConfig config;
  _tile_loadconfig(&config);
  computeNarrow<Pairs>(piece, workspace);
  _tile_release();
}

} // namespace

const NarrowKernel &narrowKernelAmx() {
  static constexpr NarrowKernel kernel = {"amx bf16 32x32", kTileRows, kTileCols, compute, orderNarrow<Pairs>};
  return kernel;
}

} // namespace ashlar::rt
