// SPDX-License-Identifier: Apache-2.0
//
// The piece of a global tensor that one device holds.

#ifndef ASHLAR_RUNTIME_RUN_CHECKPOINT_SHARD_H
#define ASHLAR_RUNTIME_RUN_CHECKPOINT_SHARD_H

#include "runtime/abi/ashlar_rt.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::rt {

// Which way copyShard() goes.
enum class ShardCopy { kGlobalToLocal, kLocalToGlobal };

// Copies between the global tensor and the piece of a device, padding left out. Both dense, row major. Example: shape (8, 2), dim 0 split
// by an axis of size 4, device 1 -> rows 2 and 3.
void copyShard(ShardCopy direction, const ashlar_rt_tensor &tensor, const ashlar_rt_variant &variant, uint32_t device, char *global,
               char *local);

// Whether a device, at `at`, is the first of the devices with the same piece of the tensor.
bool holdsFirstCopy(const ashlar_rt_tensor &tensor, int device, const std::vector<int64_t> &at);

// Bytes of the global tensor.
size_t globalBytes(const ashlar_rt_tensor &tensor);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_CHECKPOINT_SHARD_H
