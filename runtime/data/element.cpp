// SPDX-License-Identifier: Apache-2.0
//
// The conversions that most samples need, in loops that vectorise.

#include "runtime/data/element.h"

#include "runtime/data/convert_one.h"

#include <cstring>

namespace ashlar::rt {

namespace {

// Into f32, computed in f32.
template <typename From> void toFloats(const void *fromBytes, void *toBytes, int64_t count, float scale, float shift) {
  const From *from = static_cast<const From *>(fromBytes);
  float *to = static_cast<float *>(toBytes);
  if (scale == 1 && shift == 0) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = convertOne<float>(from[i]);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    to[i] = convertOne<float>(from[i]) * scale + shift;
  }
}

} // namespace

void convertElements(uint32_t fromType, const void *from, uint32_t toType, void *to, int64_t count, double scale, double shift) {
  const auto factor = static_cast<float>(scale), offset = static_cast<float>(shift);
  if (fromType == toType && fromType != ASHLAR_RT_BOOL && scale == 1 && shift == 0) {
    std::memcpy(to, from, count * dtypeBytes(toType));
  } else if (toType == ASHLAR_RT_F32 && fromType == ASHLAR_RT_F32) {
    toFloats<float>(from, to, count, factor, offset);
  } else if (toType == ASHLAR_RT_F32 && fromType == ASHLAR_RT_U8) {
    toFloats<uint8_t>(from, to, count, factor, offset);
  } else {
    convertAnyElements(fromType, from, toType, to, count, scale, shift);
  }
}

} // namespace ashlar::rt
