// SPDX-License-Identifier: Apache-2.0
//
// Which bytes of whose buffer a collective moves where.

#include "runtime/comm/view.h"

#include "runtime/base/dtype.h"
#include "runtime/comm/segments.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {

namespace {

// What there is to know of a kind of collective. No default in the switch: a new kind does not compile until it is here.
struct Kind {
  const char *name;
  bool splits, concats, reduces;
};

Kind kindOf(uint32_t number) {
  if (number <= ASHLAR_RT_HALO) {
    switch (static_cast<ashlar_rt_collective_kind>(number)) {
    case ASHLAR_RT_ALL_REDUCE:
      return {"all_reduce", false, false, true};
    case ASHLAR_RT_ALL_GATHER:
      return {"all_gather", false, true, false};
    case ASHLAR_RT_REDUCE_SCATTER:
      return {"reduce_scatter", true, false, true};
    case ASHLAR_RT_ALL_TO_ALL:
      return {"all_to_all", true, true, false};
    case ASHLAR_RT_BROADCAST:
      return {"broadcast", false, false, false};
    case ASHLAR_RT_PERMUTE:
      return {"permute", false, false, false};
    case ASHLAR_RT_SLICE:
      return {"slice", true, false, false};
    case ASHLAR_RT_HALO:
      return {"halo", false, false, false};
    }
  }
  return {nullptr, false, false, false};
}

} // namespace

const char *collectiveKindName(uint32_t kind) {
  const char *name = kindOf(kind).name;
  return name ? name : "unknown";
}

void copyView(const char *from, const View &source, char *to, const View &target, size_t begin, size_t end) {
  while (begin < end) {
    size_t inSource = begin % source.block;
    size_t inTarget = begin % target.block;
    size_t length = std::min({end - begin, source.block - inSource, target.block - inTarget});
    const char *read = from + source.offset + begin / source.block * source.stride + inSource;
    char *write = to + target.offset + begin / target.block * target.stride + inTarget;
    std::memmove(write, read, length);
    begin += length;
  }
}

void zeroView(char *to, const View &view, size_t begin, size_t end) {
  while (begin < end) {
    size_t inBlock = begin % view.block;
    size_t length = std::min(end - begin, view.block - inBlock);
    std::memset(to + view.offset + begin / view.block * view.stride + inBlock, 0, length);
    begin += length;
  }
}

Status CollectiveShape::create(const ashlar_rt_collective_desc &desc, const ashlar_rt_collective_tensor &tensor, int members,
                               uint64_t inBytes, uint64_t outBytes, CollectiveShape &shape) {
  auto [kind, splits, concats, reduces] = kindOf(desc.kind);
  shape.desc = &desc;
  shape.tensor = &tensor;
  shape.members = members;
  shape.isReduction = reduces;
  shape.elementBytes = dtypeBytes(desc.dtype);
  if (shape.elementBytes == 0 || !kind) {
    return internal("collective of kind {} and dtype {}: unknown", desc.kind, desc.dtype);
  }
  shape.inDims.assign(tensor.in_shape, tensor.in_shape + tensor.rank);
  shape.outDims = shape.inDims;
  if ((splits && tensor.split_dim >= tensor.rank) || (concats && tensor.concat_dim >= tensor.rank)) {
    return internal("{}: split dim {} or concat dim {} is not below rank {}", kind, tensor.split_dim, tensor.concat_dim, tensor.rank);
  }
  if (splits) {
    if (shape.inDims[tensor.split_dim] % members != 0) {
      return internal("{}: dim {} of size {} does not divide by the group's {} members", kind, tensor.split_dim,
                      shape.inDims[tensor.split_dim], members);
    }
    shape.outDims[tensor.split_dim] /= members;
  }
  if (concats) {
    shape.outDims[tensor.concat_dim] *= members;
  }
  if (desc.kind == ASHLAR_RT_HALO) {
    ASHLAR_RETURN_IF_ERROR(shape.placeRuns());
  }
  shape.inputBytes = shape.outputBytes = shape.elementBytes;
  for (uint32_t d = 0; d < tensor.rank; ++d) {
    shape.inputBytes *= static_cast<size_t>(shape.inDims[d]);
    shape.outputBytes *= static_cast<size_t>(shape.outDims[d]);
  }
  if (shape.inputBytes != inBytes || shape.outputBytes != outBytes) {
    return internal("{}: buffers of {} and {} bytes, but its shapes take {} and {}", kind, inBytes, outBytes, shape.inputBytes,
                    shape.outputBytes);
  }
  if (desc.kind == ASHLAR_RT_BROADCAST && desc.root >= static_cast<uint32_t>(members)) {
    return internal("{}: root {} is not one of the group's {} members", kind, desc.root, members);
  }
  std::vector<bool> named(static_cast<size_t>(members), false);
  for (uint32_t i = 0; desc.kind == ASHLAR_RT_PERMUTE && i < desc.num_pairs; ++i) {
    uint32_t source = desc.pairs[2 * i];
    uint32_t target = desc.pairs[2 * i + 1];
    if (source >= static_cast<uint32_t>(members) || target >= static_cast<uint32_t>(members) || named[target]) {
      return internal("{}: pair {} -> {} repeats a target or leaves the group of {}", kind, source, target, members);
    }
    named[target] = true;
  }
  return Status();
}

Status CollectiveShape::placeRuns() {
  int64_t members = 1;
  for (uint32_t axis = 0; desc->halo != nullptr && axis < desc->num_axes; ++axis) {
    members *= desc->halo->axis_sizes[axis];
  }
  if (desc->halo == nullptr || members != this->members || tensor->split_dim >= tensor->rank) {
    return internal("halo: a group of {} and split dim {} of rank {}, but its axes make groups of {}", this->members, tensor->split_dim,
                    tensor->rank, desc->halo != nullptr ? members : 0);
  }
  const int64_t held = segmentLength(*desc->halo, desc->num_axes, desc->halo->from), given = inDims[tensor->split_dim];
  if (given != held) {
    return internal("halo: dim {} has {} elements, but its segments are {} long", tensor->split_dim, given, held);
  }
  outDims[tensor->split_dim] = segmentLength(*desc->halo, desc->num_axes, desc->halo->to);
  return Status();
}

std::vector<View> CollectiveShape::zeroed(int target) const {
  if (desc->kind == ASHLAR_RT_HALO) {
    const Segment needed = segmentAt(*desc->halo, desc->num_axes, desc->halo->to, target);
    const int64_t length = outDims[tensor->split_dim];
    if (needed.end <= needed.begin) {
      return {run(outDims, 0, length)};
    }
    std::vector<View> views;
    if (needed.begin > needed.start) {
      views.push_back(run(outDims, 0, needed.begin - needed.start));
    }
    if (needed.end < needed.start + length) {
      views.push_back(run(outDims, needed.end - needed.start, needed.start + length - needed.end));
    }
    return views;
  }
  if (desc->kind != ASHLAR_RT_PERMUTE) {
    return {};
  }
  for (uint32_t i = 0; i < desc->num_pairs; ++i) {
    if (desc->pairs[2 * i + 1] == static_cast<uint32_t>(target)) {
      return {};
    }
  }
  return {View{0, outputBytes, outputBytes, 1}};
}

View CollectiveShape::run(const std::vector<int64_t> &dims, int64_t begin, int64_t count) const {
  const uint32_t dim = tensor->split_dim;
  View view{0, elementBytes, elementBytes, 1};
  for (uint32_t d = 0; d < dims.size(); ++d) {
    (d < dim ? view.count : view.block) *= d == dim ? 1 : static_cast<size_t>(dims[d]);
  }
  const size_t inner = view.block;
  view.offset = inner * static_cast<size_t>(begin);
  view.block = inner * static_cast<size_t>(count);
  view.stride = inner * static_cast<size_t>(dims[dim]);
  return view.block == view.stride ? View{0, view.bytes(), view.bytes(), 1} : view;
}

bool CollectiveShape::haloMovement(int source, int target, Movement &result) const {
  const Segment held = segmentAt(*desc->halo, desc->num_axes, desc->halo->from, source);
  const Segment needed = segmentAt(*desc->halo, desc->num_axes, desc->halo->to, target);
  const int64_t begin = std::max(held.begin, needed.begin), count = std::min(held.end, needed.end) - begin;
  if (count <= 0) {
    return false;
  }
  result.from = run(inDims, begin - held.start, count);
  result.to = run(outDims, begin - needed.start, count);
  return result.from.bytes() > 0;
}

View CollectiveShape::piece(const std::vector<int64_t> &dims, uint32_t dim, int index) const {
  size_t outer = 1;
  size_t inner = elementBytes;
  for (uint32_t d = 0; d < dims.size(); ++d) {
    if (d < dim) {
      outer *= static_cast<size_t>(dims[d]);
    } else {
      inner *= static_cast<size_t>(dims[d]);
    }
  }
  View view;
  view.block = inner / static_cast<size_t>(members);
  view.offset = view.block * static_cast<size_t>(index);
  view.stride = inner;
  view.count = outer;
  if (members == 1) {
    return View{0, inner * outer, inner * outer, 1};
  }
  return view;
}

bool CollectiveShape::movement(int source, int target, Movement &result) const {
  View whole{0, inputBytes, inputBytes, 1};
  result = Movement{source, target, whole, View{0, outputBytes, outputBytes, 1}};
  switch (static_cast<ashlar_rt_collective_kind>(desc->kind)) {
  case ASHLAR_RT_ALL_REDUCE:
  case ASHLAR_RT_REDUCE_SCATTER:
    return false; // not called
  case ASHLAR_RT_ALL_GATHER:
    result.to = piece(outDims, tensor->concat_dim, source);
    return true;
  case ASHLAR_RT_ALL_TO_ALL:
    result.from = piece(inDims, tensor->split_dim, target);
    result.to = piece(outDims, tensor->concat_dim, source);
    return true;
  case ASHLAR_RT_BROADCAST:
    return source == static_cast<int>(desc->root);
  case ASHLAR_RT_PERMUTE:
    for (uint32_t i = 0; i < desc->num_pairs; ++i) {
      if (desc->pairs[2 * i] == static_cast<uint32_t>(source) && desc->pairs[2 * i + 1] == static_cast<uint32_t>(target)) {
        return true;
      }
    }
    return false;
  case ASHLAR_RT_SLICE:
    result.from = piece(inDims, tensor->split_dim, target);
    return source == target;
  case ASHLAR_RT_HALO:
    return haloMovement(source, target, result);
  }
  return false; // not reached
}

View CollectiveShape::reducedView(int target) const {
  return desc->kind == ASHLAR_RT_REDUCE_SCATTER ? piece(inDims, tensor->split_dim, target) : View{0, inputBytes, inputBytes, 1};
}

} // namespace ashlar::rt
