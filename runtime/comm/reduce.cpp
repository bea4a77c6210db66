// SPDX-License-Identifier: Apache-2.0
//
// Element-wise reduction of n arrays in one fixed binary tree.

#include "runtime/comm/reduce.h"

#include "runtime/base/dtype.h"
#include "runtime/comm/reduce_kernels.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// Bytes that one tree handles at a time: its temporaries, two a level, stay in the first-level cache.
constexpr size_t kBlockBytes = 4096;

} // namespace

Status Reducer::create(uint32_t dtype, uint32_t reduction, Reducer &reducer) {
  bool known = false;
  bool isType = withDtype(dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_same_v<T, bool>) {
      known = ReducerKernels::setType<uint8_t>(reduction == ASHLAR_RT_SUM ? static_cast<uint32_t>(ASHLAR_RT_MAX) : reduction, reducer);
    } else if constexpr (sizeof(T) > 2) {
      known = ReducerKernels::setElement<T>(reduction, reducer);
    } else {
      known = ASHLAR_RT_COMPONENT(reductions_narrow) != nullptr && ASHLAR_RT_COMPONENT(reductions_narrow)(dtype, reduction, reducer);
    }
  });
  if (!isType) {
    return internal("cannot reduce elements of unknown type {}", dtype);
  }
  return known ? Status() : internal("unknown reduction {}", reduction);
}

void Reducer::run(const char *const *inputs, size_t numInputs, size_t inputOffset, char *const *outputs, size_t numOutputs,
                  size_t outputOffset, size_t bytes) const {
  for (size_t begin = 0; begin < bytes; begin += kBlockBytes) {
    size_t length = std::min(kBlockBytes, bytes - begin);
    char *out = outputs[0] + outputOffset + begin;
    tree(inputs, numInputs, inputOffset + begin, out, length);
    for (size_t i = 1; i < numOutputs; ++i) {
      copy(out, outputs[i] + outputOffset + begin, length);
    }
  }
}

void Reducer::tree(const char *const *in, size_t numInputs, size_t offset, char *out, size_t bytes) const {
  size_t count = bytes / elementBytes;
  switch (numInputs) {
  case 1:
    std::memmove(out, in[0] + offset, bytes);
    return;
  case 2:
    pair(in[0] + offset, in[1] + offset, out, count);
    return;
  case 4:
    quad(in[0] + offset, in[1] + offset, in[2] + offset, in[3] + offset, out, count);
    return;
  default:
    // Both halves go to temporaries: `out` may be one of the inputs of either.
    alignas(64) char left[kBlockBytes];
    alignas(64) char right[kBlockBytes];
    size_t half = (numInputs + 1) / 2;
    tree(in, half, offset, left, bytes);
    tree(in + half, numInputs - half, offset, right, bytes);
    pair(left, right, out, count);
  }
}

} // namespace ashlar::rt
