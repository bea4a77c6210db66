// SPDX-License-Identifier: Apache-2.0
//
// The types of PTX and the number formats C++ does not have: f16 and bf16, alone and in pairs. A value of these formats is rounded once, to
// nearest even, from a double that holds the exact result or one rounded to more than twice the bits.

#ifndef ASHLAR_TEST_EMULATOR_PTX_TYPE_H
#define ASHLAR_TEST_EMULATOR_PTX_TYPE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace ashlar::emulator {

enum class Type : uint8_t { Pred, B8, B16, B32, B64, U8, U16, U32, U64, S8, S16, S32, S64, F16, BF16, F16x2, BF16x2, F32, F64 };

// Returns the bytes of a value; a predicate takes one.
unsigned widthOf(Type type);

// Returns the type of that name, without its dot ("f32").
std::optional<Type> parseType(std::string_view name);

// Returns whether values of the type are extended with their sign.
inline bool isSigned(Type type) {
  return type >= Type::S8 && type <= Type::S64;
}

inline bool isFloat(Type type) {
  return type >= Type::F16;
}

// Rounds to a format with a sign, `exponentBits` and `mantissaBits`; overflow becomes infinity, NaN the quiet NaN of all ones.
uint16_t roundToBits(double value, int exponentBits, int mantissaBits);
double valueOfBits(uint16_t bits, int exponentBits, int mantissaBits);

// One f16 (5 bits of exponent) or bf16 (8 bits).
template <int kExponentBits> struct Float16 {
  uint16_t bits;

  Float16() = default;
  explicit Float16(double value) : bits(roundToBits(value, kExponentBits, 15 - kExponentBits)) {}
  explicit operator double() const { return valueOfBits(bits, kExponentBits, 15 - kExponentBits); }
};
using Half = Float16<5>;
using BFloat = Float16<8>;

// Two of them in a register of 32 bits.
template <class T> struct Pair {
  T low, high;
};

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_TYPE_H
