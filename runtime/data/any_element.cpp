// SPDX-License-Identifier: Apache-2.0
//
// One loop a pair of element types. They are many, and no hot loop needs them: they are compiled to be small.

#include "runtime/data/element.h"

#include "runtime/data/convert_one.h"

#include <cstring>

namespace ashlar::rt {

namespace {

// One pair of types. Floats and bytes into f32 stay in f32, so that the loop vectorises well; everything else goes through f64, which holds
// every i32 exactly. Integers that are not scaled do not go through floats at all.
template <typename From, typename To> void convertTyped(const void *fromBytes, void *toBytes, int64_t count, double scale, double shift) {
  constexpr bool narrow = std::is_same_v<To, float> && (std::is_same_v<From, float> || sizeof(From) == 1);
  using Compute = std::conditional_t<narrow, float, double>;
  const From *from = static_cast<const From *>(fromBytes);
  To *to = static_cast<To *>(toBytes);
  if (scale == 1 && shift == 0) {
    if constexpr (std::is_same_v<From, To>) {
      std::memcpy(to, from, count * sizeof(To));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        to[i] = convertOne<To>(from[i]);
      }
    }
    return;
  }
  const Compute factor = static_cast<Compute>(scale), offset = static_cast<Compute>(shift);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = convertOne<To>(convertOne<Compute>(from[i]) * factor + offset);
  }
}

} // namespace

void convertAnyElements(uint32_t fromType, const void *from, uint32_t toType, void *to, int64_t count, double scale, double shift) {
  withDtype(fromType, [&](auto source) {
    using From = StoredElement<decltype(source)>;
    withDtype(toType, [&](auto target) { convertTyped<From, decltype(target)>(from, to, count, scale, shift); });
  });
}

} // namespace ashlar::rt
