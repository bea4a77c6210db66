// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a collective instruction with the places where they lie.

#ifndef ASHLAR_RUNTIME_COMM_PLACED_TENSORS_H
#define ASHLAR_RUNTIME_COMM_PLACED_TENSORS_H

#include "runtime/comm/view.h"

#include <vector>

namespace ashlar::rt {

// A tensor of a collective, or several that lie side by side.
struct PlacedTensor {
  CollectiveShape shape;
  ashlar_rt_buffer in;
  ashlar_rt_buffer out;
};

// Checks the instruction for a group of `members` and lists its tensors. Tensors of an all-reduce that are adjacent, before and after, are
// one: the bytes between two of them, up to the alignment of buffers, belong to nobody, and are added up with the rest. Example: 40 bytes
// at 0 and 128 at 64, in place -> 192 bytes at 0.
Status placeTensors(const ashlar_rt_instr &instr, int members, std::vector<PlacedTensor> &tensors);

// Returns the bytes of the inputs of all.
size_t inputBytes(const std::vector<PlacedTensor> &tensors);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_PLACED_TENSORS_H
