// SPDX-License-Identifier: Apache-2.0
//
// The piece of a global tensor that one device holds.

#include "runtime/launch/shard.h"

#include "runtime/base/dtype.h"

#include <cstring>

namespace ashlar::rt {

void copyShard(ShardCopy direction, const ashlar_rt_tensor &tensor, const ashlar_rt_variant &variant, const std::vector<int64_t> &at,
               char *global, char *local) {
  size_t element = dtypeBytes(tensor.buffer.dtype);
  size_t rank = tensor.rank;
  // Row-major strides of the global tensor and where the piece begins in it.
  std::vector<size_t> strides(rank, element);
  for (size_t d = rank; d-- > 1;) {
    strides[d - 1] = strides[d] * static_cast<size_t>(tensor.global_shape[d]);
  }
  size_t start = 0;
  size_t rows = 1;
  for (size_t d = 0; d < rank; ++d) {
    int64_t index = 0;
    for (uint32_t i = 0; i < tensor.splits[d].num_axes; ++i) {
      uint32_t axis = tensor.splits[d].axes[i];
      index = index * variant.axes[axis].size + at[axis];
    }
    start += static_cast<size_t>(index * tensor.local_shape[d]) * strides[d];
    rows *= d + 1 < rank ? static_cast<size_t>(tensor.local_shape[d]) : 1;
  }
  size_t rowBytes = rank == 0 ? element : element * static_cast<size_t>(tensor.local_shape[rank - 1]);
  std::vector<int64_t> index(rank, 0);
  for (size_t row = 0; row < rows && rowBytes != 0; ++row) {
    size_t place = start;
    for (size_t d = 0; d + 1 < rank; ++d) {
      place += static_cast<size_t>(index[d]) * strides[d];
    }
    if (direction == ShardCopy::kGlobalToLocal) {
      std::memcpy(local + row * rowBytes, global + place, rowBytes);
    } else {
      std::memcpy(global + place, local + row * rowBytes, rowBytes);
    }
    for (size_t d = rank; d-- > 1;) {
      if (++index[d - 1] < tensor.local_shape[d - 1]) {
        break;
      }
      index[d - 1] = 0;
    }
  }
}

bool holdsFirstCopy(const ashlar_rt_tensor &tensor, const std::vector<int64_t> &at) {
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
