// SPDX-License-Identifier: Apache-2.0
//
// A dim is cut along its axes one after the other, each time into pieces of equal size, rounded up.

#include "runtime/base/piece.h"

#include <algorithm>

namespace ashlar::rt {

Piece pieceOf(const ashlar_rt_variant &variant, const ashlar_rt_tensor &tensor, uint32_t device) {
  const auto coordinate = [&](uint32_t axis) {
    uint32_t stride = 1;
    for (uint32_t i = axis + 1; i < variant.num_axes; ++i) {
      stride *= variant.axes[i].size;
    }
    return device / stride % variant.axes[axis].size;
  };
  Piece piece;
  for (uint32_t dim = 0; dim < tensor.rank; ++dim) {
    int64_t start = 0, size = tensor.global_shape[dim], end = size;
    for (uint32_t i = 0; i < tensor.splits[dim].num_axes; ++i) {
      const uint32_t axis = tensor.splits[dim].axes[i];
      size = (size + variant.axes[axis].size - 1) / variant.axes[axis].size;
      start += coordinate(axis) * size;
      end = std::min(end, start + size);
    }
    piece.start[dim] = start;
    piece.size[dim] = std::max<int64_t>(0, end - start);
  }
  return piece;
}

} // namespace ashlar::rt
