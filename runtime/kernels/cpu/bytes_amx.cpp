// SPDX-License-Identifier: Apache-2.0
//
// Products of bytes in the tile registers of AMX: 16 rows of 64 bytes each. Ordered panels, two tiles of B side by side, are as its
// products read them; A is copied into tiles, zeros behind its last row and column.

#include "runtime/kernels/cpu/gemm_kernel.h"

#include "runtime/abi/ashlar_rt.h"

#include <immintrin.h>

namespace ashlar::rt {

namespace {

constexpr int64_t kTile = 16, kTileElements = kTile * kTile; // rows of a tile, and elements of each
constexpr int64_t kCols = 2 * kTile, kRows = 2 * kTile;      // of `out` in registers at a time
// A block of all rows fits in L2 beside the panel that is read and the one that is fetched.
constexpr int64_t kMaxRows = 96, kBlockK = 1024;
constexpr int64_t kWorkspace = kMaxRows * kBlockK + kTile * kCols + kTileElements;
static_assert(kWorkspace * sizeof(uint32_t) <= kProductWorkspaceBytes, "compilers plan with less than the kernel needs");

// What LDTILECFG reads: all eight tiles are whole.
struct alignas(64) TileConfig {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// A tile of `out`, of which `rows` x `cols` exist, on its way into a register and back: itself, or a copy where it is not whole.
struct OutTile {
  uint32_t *out;
  int64_t outRow, rows, cols;
  uint32_t *copy;

  bool isWhole() const { return rows == kTile && cols == kTile; }
  uint32_t *at() const { return isWhole() ? out : copy; }
  int64_t stride() const { return (isWhole() ? outRow : kTile) * static_cast<int64_t>(sizeof(uint32_t)); }

  void fetch() const {
    for (int64_t i = 0; i < rows && !isWhole(); ++i) {
      __builtin_memcpy(copy + i * kTile, out + i * outRow, cols * sizeof(uint32_t));
    }
  }
  void put() const {
    for (int64_t i = 0; i < rows && !isWhole(); ++i) {
      __builtin_memcpy(out + i * outRow, copy + i * kTile, cols * sizeof(uint32_t));
    }
  }
};

int64_t atMost(int64_t value, int64_t limit) {
  return value < 0 ? 0 : value < limit ? value : limit;
}

// Copies the elements [p, p + k) of all rows: tiles of 16 elements of 16 rows, those of one row of tiles behind each other.
void packRows(const BytePiece &piece, int64_t p, int64_t k, int64_t steps, uint32_t *packed) {
  for (int64_t i = 0; i < (piece.rows + kTile - 1) / kTile * kTile; ++i) {
    for (int64_t step = 0; step < steps; ++step) {
      uint32_t *row = packed + (i / kTile * steps + step) * kTileElements + i % kTile * kTile;
      const int64_t count = i < piece.rows ? atMost(k - step * kTile, kTile) : 0;
      __builtin_memset(row, 0, kTile * sizeof(uint32_t));
      __builtin_memcpy(row, piece.a + i * piece.aRow + p + step * kTile, count * sizeof(uint32_t));
    }
  }
}

// One panel times up to 32 rows, over one block of k. `a` are the tiles of these rows, the lower ones `steps` tiles behind; `tail` is a
// copy of the last tiles of the panel, which may not be read as a whole where they are, null where they may. Fetches `fetched` into L2,
// `lines` a step.
struct Panel {
  const uint32_t *a, *b, *tail;
  int64_t steps;
  const char *fetched;
  int64_t lines;
};

// Adds up in the registers 0 and 1, and 2 and 3 for the lower rows.
template <bool Lower> void addProducts(Panel panel) {
  constexpr int64_t row = kCols * sizeof(uint32_t), line = 64;
  for (int64_t step = 0; step < panel.steps; ++step) {
    const bool isTail = panel.tail != nullptr && step + 1 == panel.steps;
    const uint32_t *b = isTail ? panel.tail : panel.b + step * kTile * kCols;
    for (int64_t i = 0; i < panel.lines; ++i, panel.fetched += line) {
      __builtin_prefetch(panel.fetched, /*rw=*/0, /*locality=*/2);
    }
    _tile_loadd(4, panel.a + step * kTileElements, line);
    _tile_loadd(6, b, row);
    _tile_dpbusd(0, 4, 6);
    _tile_loadd(7, b + kTile, row);
    _tile_dpbusd(1, 4, 7);
    if constexpr (Lower) {
      _tile_loadd(5, panel.a + (panel.steps + step) * kTileElements, line);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    }
  }
}

// The register of a tile of `out` is a constant of the instruction.
template <int Register> void begin(const OutTile &tile, bool isFirst, const uint32_t *bias) {
  if (!isFirst) {
    tile.fetch();
    _tile_loadd(Register, tile.at(), tile.stride());
  } else if (bias != nullptr) {
    _tile_loadd(Register, bias, 0); // the same row 16 times
  } else {
    _tile_zero(Register);
  }
}
template <int Register> void end(const OutTile &tile) {
  _tile_stored(Register, tile.at(), tile.stride());
  tile.put();
}

void compute(const BytePiece &piece, uint32_t *workspace) {
  uint32_t *packed = workspace, *tail = packed + kMaxRows * kBlockK, *copy = tail + kTile * kCols;
  const TileConfig config;
  _tile_loadconfig(&config);
  for (int64_t first = 0; first < piece.rows; first += kMaxRows) {
    BytePiece rows = piece;
    rows.rows = atMost(piece.rows - first, kMaxRows);
    rows.a += first * piece.aRow;
    rows.out += first * piece.outRow;
    for (int64_t p = 0; p < piece.k; p += kBlockK) {
      const int64_t k = atMost(piece.k - p, kBlockK), steps = (k + kTile - 1) / kTile, rest = k % kTile;
      packRows(rows, p, k, steps, packed);
      for (int64_t j = 0; j < piece.cols; j += kCols) {
        Panel panel = {packed, piece.b + j * piece.k + p * kCols, nullptr, steps, nullptr, 0};
        if (rest != 0) {
          // What is behind the last row is multiplied by the zeros of A.
          __builtin_memcpy(tail, panel.b + (steps - 1) * kTile * kCols, rest * kCols * sizeof(uint32_t));
          panel.tail = tail;
        }
        const bool isLast = j + kCols >= piece.cols;
        panel.fetched = reinterpret_cast<const char *>(isLast ? piece.b + (p + k) * kCols : panel.b + kCols * piece.k);
        const int64_t strips = (rows.rows + kRows - 1) / kRows;
        panel.lines = (kTile * kCols * static_cast<int64_t>(sizeof(uint32_t)) / 64 + strips - 1) / strips;
        for (int64_t i = 0; i < rows.rows; i += kRows, panel.a += 2 * steps * kTileElements, panel.fetched += steps * panel.lines * 64) {
          const bool hasLower = rows.rows - i > kTile;
          const auto tileAt = [&](int64_t row, int64_t col) {
            return OutTile{rows.out + row * piece.outRow + col, piece.outRow, atMost(rows.rows - row, kTile),
                           atMost(piece.cols - col, kTile), copy};
          };
          const OutTile tiles[4] = {tileAt(i, j), tileAt(i, j + kTile), tileAt(i + kTile, j), tileAt(i + kTile, j + kTile)};
          const uint32_t *bias = piece.bias != nullptr ? piece.bias + j : nullptr, *right = bias != nullptr ? bias + kTile : nullptr;
          begin<0>(tiles[0], p == 0, bias);
          begin<1>(tiles[1], p == 0, right);
          if (hasLower) {
            begin<2>(tiles[2], p == 0, bias);
            begin<3>(tiles[3], p == 0, right);
            addProducts<true>(panel);
            end<2>(tiles[2]);
            end<3>(tiles[3]);
          } else {
            addProducts<false>(panel);
          }
          end<0>(tiles[0]);
          end<1>(tiles[1]);
        }
      }
    }
  }
  _tile_release();
}

} // namespace

const ByteKernel &byteKernelAmx() {
  static constexpr ByteKernel kernel = {"amx 32x32", kTile, kCols, kWorkspace, compute};
  return kernel;
}

} // namespace ashlar::rt
