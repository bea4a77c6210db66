// SPDX-License-Identifier: Apache-2.0
//
// The element types of the ABI: one table, which everything in the runtime asks that depends on the type of elements.

#ifndef ASHLAR_RUNTIME_BASE_DTYPE_H
#define ASHLAR_RUNTIME_BASE_DTYPE_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/half.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace ashlar::rt {

// ROW(enumerator without its prefix, C++ type of an element, name in errors)
#define ASHLAR_RT_DTYPES(ROW)                                                                                                              \
  ROW(F32, float, "f32")                                                                                                                   \
  ROW(F64, double, "f64")                                                                                                                  \
  ROW(I32, int32_t, "i32")                                                                                                                 \
  ROW(I64, int64_t, "i64")                                                                                                                 \
  ROW(BOOL, bool, "bool")                                                                                                                  \
  ROW(F16, F16, "f16")                                                                                                                     \
  ROW(BF16, Bf16, "bf16")                                                                                                                  \
  ROW(I8, int8_t, "i8")                                                                                                                    \
  ROW(I16, int16_t, "i16")                                                                                                                 \
  ROW(U8, uint8_t, "u8")                                                                                                                   \
  ROW(U16, uint16_t, "u16")                                                                                                                \
  ROW(U32, uint32_t, "u32")                                                                                                                \
  ROW(U64, uint64_t, "u64")

// Calls `body` with an element of the type, 0. Returns false, and calls nothing, for a value that is no ashlar_rt_dtype.
template <typename Body> bool withDtype(uint32_t dtype, Body body) {
  switch (dtype) {
#define ASHLAR_RT_ROW(enumerator, type, name)                                                                                              \
  case ASHLAR_RT_##enumerator:                                                                                                             \
    body(type{});                                                                                                                          \
    return true;
    ASHLAR_RT_DTYPES(ASHLAR_RT_ROW)
#undef ASHLAR_RT_ROW
  default:
    return false;
  }
}

// Returns the bytes of one element; 0 for a value that is no ashlar_rt_dtype.
inline size_t dtypeBytes(uint32_t dtype) {
  size_t bytes = 0;
  withDtype(dtype, [&](auto element) { bytes = sizeof(element); });
  return bytes;
}

// Returns the name that errors call the type, like "f32".
inline const char *dtypeName(uint32_t dtype) {
  switch (dtype) {
#define ASHLAR_RT_ROW(enumerator, type, name)                                                                                              \
  case ASHLAR_RT_##enumerator:                                                                                                             \
    return name;
    ASHLAR_RT_DTYPES(ASHLAR_RT_ROW)
#undef ASHLAR_RT_ROW
  default:
    return "unknown";
  }
}

// The type that an element is read as: a bool is a byte, which may hold anything.
template <typename T> using StoredElement = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

// Whether a type is one of floats, and the bits that its numbers have without sign and exponent: 11 of f16, 7 of i8.
template <typename T> constexpr bool isFloatElement() {
  return !std::is_integral_v<T>;
}
template <typename T> constexpr int digitsOfElement() {
  return std::is_same_v<T, F16> ? 11 : std::is_same_v<T, Bf16> ? 8 : std::numeric_limits<T>::digits;
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_DTYPE_H
