// SPDX-License-Identifier: Apache-2.0
//
// Names and widths of PTX types, and rounding to 16 bits.

#include "test/emulator/ptx/type.h"

#include <array>
#include <cmath>
#include <utility>

namespace ashlar::emulator {
namespace {

constexpr std::array<std::pair<std::string_view, unsigned>, 19> kTypes = {{{"pred", 1},
                                                                           {"b8", 1},
                                                                           {"b16", 2},
                                                                           {"b32", 4},
                                                                           {"b64", 8},
                                                                           {"u8", 1},
                                                                           {"u16", 2},
                                                                           {"u32", 4},
                                                                           {"u64", 8},
                                                                           {"s8", 1},
                                                                           {"s16", 2},
                                                                           {"s32", 4},
                                                                           {"s64", 8},
                                                                           {"f16", 2},
                                                                           {"bf16", 2},
                                                                           {"f16x2", 4},
                                                                           {"bf16x2", 4},
                                                                           {"f32", 4},
                                                                           {"f64", 8}}};

} // namespace

unsigned widthOf(Type type) {
  return kTypes[size_t(type)].second;
}

std::optional<Type> parseType(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].first == name) {
      return Type(i);
    }
  }
  return std::nullopt;
}

uint16_t roundToBits(double value, int exponentBits, int mantissaBits) {
  const int bias = (1 << (exponentBits - 1)) - 1;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const auto infinity = uint16_t(((1 << exponentBits) - 1) << mantissaBits);
  if (std::isnan(value)) {
    return 0x7fff;
  }
  if (std::isinf(value) || value == 0) {
    return sign | (value == 0 ? 0 : infinity);
  }
  // The unit in the last place; below the smallest normal number it stays the same.
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const double units = std::nearbyint(std::ldexp(std::fabs(value), mantissaBits - exponent));
  // Normal numbers have their leading bit in `units`; it moves the exponent field up by one, as a carry of rounding does.
  const double encoded = units + std::ldexp(double(exponent + bias - 1), mantissaBits);
  return sign | (encoded >= infinity ? infinity : uint16_t(encoded));
}

double valueOfBits(uint16_t bits, int exponentBits, int mantissaBits) {
  const int bias = (1 << (exponentBits - 1)) - 1;
  const int field = (bits >> mantissaBits) & ((1 << exponentBits) - 1);
  const int mantissa = bits & ((1 << mantissaBits) - 1);
  double magnitude;
  if (field == (1 << exponentBits) - 1) {
    magnitude = mantissa == 0 ? INFINITY : NAN;
  } else if (field == 0) {
    magnitude = std::ldexp(double(mantissa), 1 - bias - mantissaBits);
  } else {
    magnitude = std::ldexp(double(mantissa + (1 << mantissaBits)), field - bias - mantissaBits);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

} // namespace ashlar::emulator
