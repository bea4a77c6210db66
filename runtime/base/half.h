// SPDX-License-Identifier: Apache-2.0
//
// Numbers of two bytes, bf16 and f16: kept as bits, computed as float, rounded to nearest even. Integer operations only, so that no library
// function is called and loops over arrays vectorise.

#ifndef ASHLAR_RUNTIME_BASE_HALF_H
#define ASHLAR_RUNTIME_BASE_HALF_H

#include <cstdint>
#include <cstring>

namespace ashlar::rt {

namespace half {

inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

} // namespace half

// The upper half of a float.
struct Bf16 {
  uint16_t bits;

  Bf16() = default;
  explicit Bf16(float value) {
    uint32_t wide = half::bitsOf(value);
    uint32_t rounded = (wide + 0x7fff + (wide >> 16 & 1)) >> 16; // a tie goes up where the last bit that stays is set
    uint32_t quiet = wide >> 16 | 0x40;                          // a NaN stays one
    bits = static_cast<uint16_t>((wide & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
  explicit operator float() const { return half::floatOf(static_cast<uint32_t>(bits) << 16); }
};

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct F16 {
  uint16_t bits;

  F16() = default;
  explicit F16(float value) {
    uint32_t wide = half::bitsOf(value), sign = wide >> 16 & 0x8000, size = wide & 0x7fffffff;
    // Exponents move from bias 127 to 15; the 13 bits that go round the rest, with a carry into the exponent up to infinity.
    uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    // Below 2^-14 the last place is 2^-24, the last place of numbers from 0.5 to 1: adding 0.5 rounds there.
    uint32_t subnormal = half::bitsOf(half::floatOf(size) + 0.5f) - half::bitsOf(0.5f);
    uint32_t special = size > 0x7f800000 ? 0x7e00 : 0x7c00; // NaN, or beyond the largest number
    uint32_t kept = size < (113u << 23) ? subnormal : normal;
    bits = static_cast<uint16_t>(sign | (size >= (143u << 23) ? special : kept));
  }
  explicit operator float() const {
    // With the fraction in its place, the exponent is too small by 112; the product also makes subnormal numbers normal.
    uint32_t size = static_cast<uint32_t>(bits & 0x7fff) << 13, sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    uint32_t finite = half::bitsOf(half::floatOf(size) * 0x1p112f);
    return half::floatOf(sign | (size >= (31u << 23) ? size | 0x7f800000 : finite));
  }
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_HALF_H
