// SPDX-License-Identifier: Apache-2.0
//
// bf16 and f16: every number there is, and the rounding between neighbours.

#include "runtime/base/half.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

namespace ashlar::test::half_test {

using namespace ashlar::rt;

namespace {

template <typename T> T fromBits(uint32_t bits) {
  T value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

// The value of a number by its definition: `digits` bits of fraction, exponents with `bias`.
double valueOf(uint32_t bits, int digits, int bias) {
  uint32_t fraction = bits & ((1u << digits) - 1), exponent = (bits & 0x7fff) >> digits;
  double size = exponent == 0 ? std::ldexp(fraction, 1 - bias - digits)
                              : std::ldexp(fraction + (1u << digits), static_cast<int>(exponent) - bias - digits);
  return bits & 0x8000 ? -size : size;
}

// Checks all finite numbers, with `infinity` the bits of infinity, and what lies between each and the next.
template <typename T> void checkAll(uint32_t infinity, int digits, int bias) {
  int wrong = 0;
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    for (uint32_t sign : {0u, 0x8000u}) {
      auto value = static_cast<float>(fromBits<T>(bits | sign));
      wrong += value != valueOf(bits | sign, digits, bias) || T(value).bits != (bits | sign);
      // The number after the largest would be at twice its distance; from the middle on, it is infinity.
      double next = bits + 1 < infinity ? valueOf(bits + 1, digits, bias) : std::ldexp(1, static_cast<int>(infinity >> digits) - bias);
      auto middle = static_cast<float>((valueOf(bits, digits, bias) + next) / 2);
      float signedMiddle = sign ? -middle : middle;
      uint32_t even = bits & 1 ? bits + 1 : bits;
      wrong += T(signedMiddle).bits != (even | sign);
      wrong += T(std::nextafter(signedMiddle, 0.0f)).bits != (bits | sign);
      wrong += T(std::nextafter(signedMiddle, sign ? -INFINITY : INFINITY)).bits != ((bits + 1) | sign);
    }
  }
  CHECK(wrong == 0);
  float most = std::numeric_limits<float>::infinity();
  CHECK(T(most).bits == infinity);
  CHECK(T(-most).bits == (infinity | 0x8000));
  CHECK(static_cast<float>(fromBits<T>(infinity)) == most);
  CHECK(std::isnan(static_cast<float>(T(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(static_cast<float>(T(half::floatOf(0x7f800001))))); // a NaN whose upper bits are those of infinity
  CHECK(std::isnan(static_cast<float>(fromBits<T>(infinity | 1))));
}

} // namespace

TEST_CASE("half: f16 holds and rounds every number", "[runtime][half]") {
  checkAll<F16>(0x7c00, 10, 15);
  CHECK(F16(65519.0f).bits == 0x7bff);
  CHECK(F16(1e9f).bits == 0x7c00);
}

TEST_CASE("half: bf16 holds and rounds every number", "[runtime][half]") {
  checkAll<Bf16>(0x7f80, 7, 127);
}

} // namespace ashlar::test::half_test
