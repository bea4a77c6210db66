// SPDX-License-Identifier: Apache-2.0
//
// Conversion of one number between element types, for loops over many.

#ifndef ASHLAR_RUNTIME_DATA_CONVERT_ONE_H
#define ASHLAR_RUNTIME_DATA_CONVERT_ONE_H

#include "runtime/base/half.h"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace ashlar::rt {

// Converts one element: to bool by whether it is 0, to an integer by rounding towards zero and to the nearest it can hold (NaN gives 0).
template <typename To, typename From> To convertOne(From value) {
  if constexpr (!std::is_arithmetic_v<From>) {
    return convertOne<To>(static_cast<float>(value));
  } else if constexpr (!std::is_arithmetic_v<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_integral_v<From>) {
    // Compared with and without a sign: a limit of one type may be no number of the other.
    constexpr To kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
    if constexpr (std::is_signed_v<From>) {
      if (value < 0) {
        return static_cast<int64_t>(value) < static_cast<int64_t>(kLow) ? kLow : static_cast<To>(value);
      }
    }
    return static_cast<uint64_t>(value) > static_cast<uint64_t>(kHigh) ? kHigh : static_cast<To>(value);
  } else {
    // The limits are powers of two, exact in any float: the upper one is the first that does not fit.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kEnd = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    if (value >= kEnd) {
      return std::numeric_limits<To>::max();
    }
    return value >= kLow ? static_cast<To>(value) : value < kLow ? std::numeric_limits<To>::min() : 0;
  }
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_CONVERT_ONE_H
