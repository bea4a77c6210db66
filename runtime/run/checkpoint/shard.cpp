// SPDX-License-Identifier: Apache-2.0
//
// The piece of a global tensor that one device holds.

#include "runtime/run/checkpoint/shard.h"

#include "runtime/base/dtype.h"
#include "runtime/base/piece.h"

#include <cstring>

namespace ashlar::rt {

void copyShard(ShardCopy direction, const ashlar_rt_tensor &tensor, const ashlar_rt_variant &variant, uint32_t device, char *global,
               char *local) {
  const size_t element = dtypeBytes(tensor.buffer.dtype);
  forEachRun(tensor, pieceOf(variant, tensor, device), /*firstDim=*/0, [&](int64_t inGlobal, int64_t inLocal, int64_t count) {
    char *outside = global + inGlobal * element, *inside = local + inLocal * element;
    const bool in = direction == ShardCopy::kGlobalToLocal;
    std::memcpy(in ? inside : outside, in ? outside : inside, count * element);
  });
}

bool holdsFirstCopy(const ashlar_rt_tensor &tensor, int device, const std::vector<int64_t> &at) {
  if (tensor.owner != 0) {
    return tensor.owner == static_cast<uint32_t>(device) + 1;
  }
  std::vector<bool> splits(at.size(), false);
  for (uint32_t d = 0; d < tensor.rank; ++d) {
    for (uint32_t i = 0; i < tensor.splits[d].num_axes; ++i) {
      splits[tensor.splits[d].axes[i]] = true;
    }
  }
  for (size_t axis = 0; axis < at.size(); ++axis) {
    if (!splits[axis] && at[axis] != 0) {
      return false;
    }
  }
  return true;
}

size_t globalBytes(const ashlar_rt_tensor &tensor) {
  size_t bytes = dtypeBytes(tensor.buffer.dtype);
  for (uint32_t d = 0; d < tensor.rank; ++d) {
    bytes *= static_cast<size_t>(tensor.global_shape[d]);
  }
  return bytes;
}

} // namespace ashlar::rt
