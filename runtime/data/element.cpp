// SPDX-License-Identifier: Apache-2.0
//
// Sizes, names and conversion of element types.

#include "runtime/data/element.h"

#include "runtime/abi/ashlar_rt.h"
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

template <typename From> void convertFrom(const void *from, Element toType, void *to, int64_t count, double scale, double shift) {
  switch (toType) {
  case Element::kF32:
    return convertTyped<From, float>(from, to, count, scale, shift);
  case Element::kF64:
    return convertTyped<From, double>(from, to, count, scale, shift);
  case Element::kI32:
    return convertTyped<From, int32_t>(from, to, count, scale, shift);
  case Element::kI64:
    return convertTyped<From, int64_t>(from, to, count, scale, shift);
  case Element::kU8:
    return convertTyped<From, uint8_t>(from, to, count, scale, shift);
  case Element::kBool:
    return convertTyped<From, bool>(from, to, count, scale, shift);
  case Element::kF16:
    return convertTyped<From, F16>(from, to, count, scale, shift);
  }
}

} // namespace

size_t elementBytes(Element element) {
  switch (element) {
  case Element::kF64:
  case Element::kI64:
    return 8;
  case Element::kF32:
  case Element::kI32:
    return 4;
  case Element::kF16:
    return 2;
  case Element::kU8:
  case Element::kBool:
    return 1;
  }
  return 0;
}

const char *elementName(Element element) {
  static const char *const names[] = {"f32", "f64", "i32", "i64", "u8", "bool", "f16"};
  return names[static_cast<int>(element)];
}

bool elementOfDtype(uint32_t dtype, Element &element) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    element = Element::kF32;
    return true;
  case ASHLAR_RT_F64:
    element = Element::kF64;
    return true;
  case ASHLAR_RT_I32:
    element = Element::kI32;
    return true;
  case ASHLAR_RT_I64:
    element = Element::kI64;
    return true;
  case ASHLAR_RT_BOOL:
    element = Element::kBool;
    return true;
  case ASHLAR_RT_F16:
    element = Element::kF16;
    return true;
  default:
    return false;
  }
}

void convertElements(Element fromType, const void *from, Element toType, void *to, int64_t count, double scale, double shift) {
  switch (fromType) {
  case Element::kF32:
    return convertFrom<float>(from, toType, to, count, scale, shift);
  case Element::kF64:
    return convertFrom<double>(from, toType, to, count, scale, shift);
  case Element::kF16:
    return convertFrom<F16>(from, toType, to, count, scale, shift);
  case Element::kI32:
    return convertFrom<int32_t>(from, toType, to, count, scale, shift);
  case Element::kI64:
    return convertFrom<int64_t>(from, toType, to, count, scale, shift);
  case Element::kU8:
  case Element::kBool:
    return convertFrom<uint8_t>(from, toType, to, count, scale, shift);
  }
}

} // namespace ashlar::rt
