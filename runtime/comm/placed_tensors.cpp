// SPDX-License-Identifier: Apache-2.0
//
// Checks of the buffers of a collective, and which of them are one run of bytes.

#include "runtime/comm/placed_tensors.h"

namespace ashlar::rt {
namespace {

bool overlap(const ashlar_rt_buffer &a, const ashlar_rt_buffer &b) {
  return a.space == b.space && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Whether `next` begins on the first boundary behind `buffer`.
bool follows(const ashlar_rt_buffer &next, const ashlar_rt_buffer &buffer) {
  uint64_t end = buffer.offset + buffer.bytes;
  return next.space == buffer.space && next.offset == (end + ASHLAR_RT_ALIGNMENT - 1) / ASHLAR_RT_ALIGNMENT * ASHLAR_RT_ALIGNMENT;
}

// What is written must lie apart from all else, but for an all-reduce and a broadcast in place.
Status checkOverlap(const ashlar_rt_instr &instr, const ashlar_rt_collective_desc &desc) {
  uint32_t count = desc.num_tensors;
  for (uint32_t written = count; written < instr.num_buffers; ++written) {
    for (uint32_t other = 0; other < written; ++other) {
      const ashlar_rt_buffer &out = instr.buffers[written];
      const ashlar_rt_buffer &buffer = instr.buffers[other];
      bool mayStay = desc.kind == ASHLAR_RT_ALL_REDUCE || desc.kind == ASHLAR_RT_BROADCAST;
      bool inPlace = mayStay && other + count == written && buffer.offset == out.offset;
      if (!inPlace && overlap(buffer, out)) {
        return internal("{}: {} at {} and out at {} overlap", instr.name, other < count ? "in" : "out", buffer.offset, out.offset);
      }
    }
  }
  return Status();
}

} // namespace

Status placeTensors(const ashlar_rt_instr &instr, int members, std::vector<PlacedTensor> &tensors) {
  const auto *desc = static_cast<const ashlar_rt_collective_desc *>(instr.desc);
  if (desc == nullptr || desc->num_tensors == 0 || instr.num_buffers != 2 * desc->num_tensors) {
    return internal("{}: a collective of {} tensors has buffers in and out for each, not {} buffers", instr.name,
                    desc != nullptr ? desc->num_tensors : 0, instr.num_buffers);
  }
  tensors.clear();
  for (uint32_t i = 0; i < desc->num_tensors; ++i) {
    PlacedTensor tensor{{}, instr.buffers[i], instr.buffers[desc->num_tensors + i]};
    Status checked = CollectiveShape::create(*desc, desc->tensors[i], members, tensor.in.bytes, tensor.out.bytes, tensor.shape);
    if (!checked.ok()) {
      return internal("{}: {}", instr.name, checked.message());
    }
    if (tensor.in.dtype != desc->dtype || tensor.out.dtype != desc->dtype) {
      return internal("{}: buffers of dtypes {} and {} in a collective of dtype {}", instr.name, tensor.in.dtype, tensor.out.dtype,
                      desc->dtype);
    }
    bool constant = tensor.in.space == ASHLAR_RT_CONSTANT;
    if (tensor.out.space != ASHLAR_RT_ARENA || (constant && desc->kind != ASHLAR_RT_SLICE)) {
      return internal("{}: {} needs both buffers in the arena", instr.name, collectiveKindName(desc->kind));
    }
    PlacedTensor *before = tensors.empty() ? nullptr : &tensors.back();
    if (before != nullptr && desc->kind == ASHLAR_RT_ALL_REDUCE && follows(tensor.in, before->in) && follows(tensor.out, before->out)) {
      uint64_t bytes = tensor.in.offset + tensor.in.bytes - before->in.offset;
      before->shape.lengthen(bytes);
      before->in.bytes = before->out.bytes = bytes;
    } else {
      tensors.push_back(tensor);
    }
  }
  return checkOverlap(instr, *desc);
}

size_t inputBytes(const std::vector<PlacedTensor> &tensors) {
  size_t bytes = 0;
  for (const PlacedTensor &tensor : tensors) {
    bytes += tensor.shape.inBytes();
  }
  return bytes;
}

} // namespace ashlar::rt
