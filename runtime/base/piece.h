// SPDX-License-Identifier: Apache-2.0
//
// The piece of a global tensor that one device holds.

#ifndef ASHLAR_RUNTIME_BASE_PIECE_H
#define ASHLAR_RUNTIME_BASE_PIECE_H

#include "runtime/abi/ashlar_rt.h"

#include <array>

namespace ashlar::rt {

// Where a piece begins in the global tensor, and how much of it is there, dim by dim; the rest of the piece is padding.
struct Piece {
  std::array<int64_t, ASHLAR_RT_MAX_RANK> start = {}, size = {};

  bool operator==(const Piece &other) const { return start == other.start && size == other.size; }
};

// Returns the piece of `tensor` that device `device` of the variant's mesh holds (row major: the last axis varies fastest). Example: dim 0
// of global size 7 split over axes {dp = 2, tp = 2}: devices 0, 1, 2, 3 begin at 0, 2, 4, 6 and have 2, 2, 2, 1.
Piece pieceOf(const ashlar_rt_variant &variant, const ashlar_rt_tensor &tensor, uint32_t device);

// Calls use(global, local, count) for every run of elements that follow each other both in the global tensor and in the piece: `count` of
// them from element `global` and `local` on, row major, counted over the dims from `firstDim` on. Padding is left out.
template <typename Use> void forEachRun(const ashlar_rt_tensor &tensor, const Piece &piece, uint32_t firstDim, Use &&use) {
  int64_t globalStride[ASHLAR_RT_MAX_RANK + 1], localStride[ASHLAR_RT_MAX_RANK + 1], position[ASHLAR_RT_MAX_RANK] = {};
  globalStride[tensor.rank] = localStride[tensor.rank] = 1;
  int64_t global = 0, local = 0;
  for (uint32_t dim = tensor.rank; dim-- > firstDim;) {
    globalStride[dim] = globalStride[dim + 1] * tensor.global_shape[dim];
    localStride[dim] = localStride[dim + 1] * tensor.local_shape[dim];
    global += piece.start[dim] * globalStride[dim + 1];
    if (piece.size[dim] == 0) {
      return;
    }
  }
  // A run consists of the last dims that are complete, and the present part of the one before.
  uint32_t run = tensor.rank;
  while (run > firstDim && piece.size[run - 1] == tensor.global_shape[run - 1]) {
    --run;
  }
  run -= run > firstDim ? 1 : 0;
  const int64_t count = run < tensor.rank ? piece.size[run] * globalStride[run + 1] : 1;
  while (true) {
    use(global, local, count);
    // Counts up over the dims before the run, the last one fastest.
    uint32_t dim = run;
    while (dim-- > firstDim) {
      global += globalStride[dim + 1];
      local += localStride[dim + 1];
      if (++position[dim] < piece.size[dim]) {
        break;
      }
      global -= position[dim] * globalStride[dim + 1];
      local -= position[dim] * localStride[dim + 1];
      position[dim] = 0;
    }
    if (dim + 1 == firstDim) {
      return;
    }
  }
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_PIECE_H
