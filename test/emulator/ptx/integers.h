// SPDX-License-Identifier: Apache-2.0
//
// Chooses the handler of an operation by its integer type.

#ifndef ASHLAR_TEST_EMULATOR_PTX_INTEGERS_H
#define ASHLAR_TEST_EMULATOR_PTX_INTEGERS_H

#include "test/emulator/ptx/decoder.h"
#include "test/emulator/ptx/lanes.h"

namespace ashlar::emulator {

struct MulLow {
  template <class T> T operator()(T a, T b) const { return T(uint64_t(a) * uint64_t(b)); }
};

struct MulHigh {
  template <class T> T operator()(T a, T b) const { return T((__int128(a) * __int128(b)) >> (sizeof(T) * 8)); }
};

// Returns the handler of F on kCount operands of type T that makes a T.
template <class F, unsigned kCount, class T> Handler sameHandler() {
  if constexpr (kCount == 1) {
    return &lanes<F, T, T>;
  } else if constexpr (kCount == 2) {
    return &lanes<F, T, T, T>;
  } else {
    return &lanes<F, T, T, T, T>;
  }
}

// The same by type; a type without a sign of its own (b32) counts as unsigned.
template <class F, unsigned kCount> Handler integerHandler(Decoder &decoder, Type type) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return sameHandler<F, kCount, uint16_t>();
  case Type::B32:
  case Type::U32:
    return sameHandler<F, kCount, uint32_t>();
  case Type::B64:
  case Type::U64:
    return sameHandler<F, kCount, uint64_t>();
  case Type::S16:
    return sameHandler<F, kCount, int16_t>();
  case Type::S32:
    return sameHandler<F, kCount, int32_t>();
  case Type::S64:
    return sameHandler<F, kCount, int64_t>();
  default:
    decoder.fail("an integer operation of this type is not known");
  }
}

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_INTEGERS_H
