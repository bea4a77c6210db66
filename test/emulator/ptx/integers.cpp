// SPDX-License-Identifier: Apache-2.0
//
// Integer arithmetic. Everything wraps; what the ISA leaves open (a division by zero) gives all ones, as GPUs do.

#include "test/emulator/ptx/integers.h"

#include "test/emulator/ptx/carries.h"
#include "test/emulator/ptx/floats.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace ashlar::emulator {
namespace {

struct Add {
  template <class T> T operator()(T a, T b) const { return T(uint64_t(a) + uint64_t(b)); }
};

struct Sub {
  template <class T> T operator()(T a, T b) const { return T(uint64_t(a) - uint64_t(b)); }
};

template <class Wide> struct MulWide {
  template <class T> Wide operator()(T a, T b) const { return Wide(a) * Wide(b); }
};

struct MadLow {
  template <class T> T operator()(T a, T b, T c) const { return T(uint64_t(a) * uint64_t(b) + uint64_t(c)); }
};

struct MadHigh {
  template <class T> T operator()(T a, T b, T c) const { return Add()(MulHigh()(a, b), c); }
};

template <class Wide> struct MadWide {
  template <class T> Wide operator()(T a, T b, Wide c) const { return Add()(Wide(Wide(a) * Wide(b)), c); }
};

template <class T> bool overflows(T a, T b) {
  return std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == T(-1);
}

struct Div {
  template <class T> T operator()(T a, T b) const { return b == 0 ? T(-1) : overflows(a, b) ? a : T(a / b); }
};

struct Rem {
  template <class T> T operator()(T a, T b) const { return b == 0 ? a : overflows(a, b) ? T(0) : T(a % b); }
};

struct Min {
  template <class T> T operator()(T a, T b) const { return a < b ? a : b; }
};

struct Max {
  template <class T> T operator()(T a, T b) const { return a > b ? a : b; }
};

struct Abs {
  template <class T> T operator()(T a) const { return a < 0 ? Sub()(T(0), a) : a; }
};

struct Neg {
  template <class T> T operator()(T a) const { return Sub()(T(0), a); }
};

// Three operands, of one type.
template <class F> void decodeBinary(Decoder &decoder, const Statement &statement, Type type) {
  decoder.expectOperands(statement, 3, 3);
  decoder.emit(integerHandler<F, 2>(decoder, type),
               {decoder.destination(statement.operands[0], type), decoder.source(statement.operands[1], type),
                decoder.source(statement.operands[2], type)});
}

// Two numbers of 16 bits in one of 32, each for itself.
template <class F, class T> struct Halves {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    return uint32_t(uint16_t(F()(T(a >> 16), T(b >> 16)))) << 16 | uint16_t(F()(T(a), T(b)));
  }
};

template <class F, class T> void decodeHalves(Decoder &decoder, const Statement &statement) {
  decoder.expectOperands(statement, 3, 3);
  const auto &operands = statement.operands;
  decoder.emit(
      &lanes<Halves<F, T>, uint32_t, uint32_t, uint32_t>,
      {decoder.destination(operands[0], Type::B32), decoder.source(operands[1], Type::B32), decoder.source(operands[2], Type::B32)});
}

template <class F> void decodeUnary(Decoder &decoder, const Statement &statement, Type type) {
  decoder.expectOperands(statement, 2, 2);
  decoder.emit(integerHandler<F, 1>(decoder, type),
               {decoder.destination(statement.operands[0], type), decoder.source(statement.operands[1], type)});
}

bool hasCarry(const Qualifiers &qualifiers) {
  return std::find(qualifiers.all().begin(), qualifiers.all().end(), "cc") != qualifiers.all().end();
}

// An opcode for integers and floats; of integers, the last "lo" or "rn" has no meaning.
template <class F> void decodeBoth(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  if constexpr (std::is_invocable_v<F, int, int>) {
    const bool isSigned = qualifiers.take("s16x2");
    if (isSigned || qualifiers.take("u16x2")) {
      return isSigned ? decodeHalves<F, int16_t>(decoder, statement) : decodeHalves<F, uint16_t>(decoder, statement);
    }
  }
  const Type type = qualifiers.takeType();
  if (isFloat(type)) {
    decodeFloat(decoder, qualifiers, statement, type);
  } else if (hasCarry(qualifiers)) {
    decodeCarry(decoder, qualifiers, statement, type);
  } else if constexpr (std::is_invocable_v<F, int, int>) {
    decodeBinary<F>(decoder, statement, type);
  } else {
    decodeUnary<F>(decoder, statement, type);
  }
}

// mul.wide: the types of the operands and the one twice as wide.
template <template <class> class F, class Narrow, class Wide, bool kAdd> Handler wideHandler() {
  if constexpr (kAdd) {
    return &lanes<F<Wide>, Wide, Narrow, Narrow, Wide>;
  } else {
    return &lanes<F<Wide>, Wide, Narrow, Narrow>;
  }
}

template <template <class> class F, bool kAdd> void decodeWide(Decoder &decoder, const Statement &statement, Type type) {
  struct Row {
    Type narrow, wide;
    Handler handler;
  };
  static const Row kRows[] = {{Type::U16, Type::U32, wideHandler<F, uint16_t, uint32_t, kAdd>()},
                              {Type::S16, Type::S32, wideHandler<F, int16_t, int32_t, kAdd>()},
                              {Type::U32, Type::U64, wideHandler<F, uint32_t, uint64_t, kAdd>()},
                              {Type::S32, Type::S64, wideHandler<F, int32_t, int64_t, kAdd>()}};
  for (const Row &row : kRows) {
    if (row.narrow != type) {
      continue;
    }
    const auto &operands = statement.operands;
    const uint32_t out = decoder.destination(operands[0], row.wide);
    const uint32_t a = decoder.source(operands[1], type), b = decoder.source(operands[2], type);
    if (kAdd) {
      decoder.emit(row.handler, {out, a, b, decoder.source(operands[3], row.wide)});
    } else {
      decoder.emit(row.handler, {out, a, b});
    }
    return;
  }
  decoder.fail("'" + statement.opcode[0] + ".wide' of this type is not known");
}

void decodeMul(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  const Type type = qualifiers.takeType();
  decoder.expectOperands(statement, 3, 3);
  if (isFloat(type)) {
    decodeFloat(decoder, qualifiers, statement, type);
  } else if (qualifiers.take("wide")) {
    decodeWide<MulWide, false>(decoder, statement, type);
  } else if (qualifiers.take("hi")) {
    decodeBinary<MulHigh>(decoder, statement, type);
  } else if (qualifiers.take("lo")) {
    decodeBinary<MulLow>(decoder, statement, type);
  } else {
    decoder.fail("'mul' of integers needs .lo, .hi or .wide");
  }
}

void decodeMad(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  const Type type = qualifiers.takeType();
  decoder.expectOperands(statement, 4, 4);
  if (isFloat(type)) {
    decodeFloat(decoder, qualifiers, statement, type);
    return;
  }
  if (hasCarry(qualifiers)) {
    decodeCarry(decoder, qualifiers, statement, type);
    return;
  }
  if (qualifiers.take("wide")) {
    decodeWide<MadWide, true>(decoder, statement, type);
    return;
  }
  const bool high = qualifiers.take("hi");
  if (!high && !qualifiers.take("lo")) {
    decoder.fail("'mad' of integers needs .lo, .hi or .wide");
  }
  const auto &operands = statement.operands;
  decoder.emit(high ? integerHandler<MadHigh, 3>(decoder, type) : integerHandler<MadLow, 3>(decoder, type),
               {decoder.destination(operands[0], type), decoder.source(operands[1], type), decoder.source(operands[2], type),
                decoder.source(operands[3], type)});
}

} // namespace

void addIntegers(Families &families) {
  families.insert({{"abs", &decodeBoth<Abs>},
                   {"add", &decodeBoth<Add>},
                   {"div", &decodeBoth<Div>},
                   {"mad", &decodeMad},
                   {"max", &decodeBoth<Max>},
                   {"min", &decodeBoth<Min>},
                   {"mul", &decodeMul},
                   {"neg", &decodeBoth<Neg>},
                   {"rem", &decodeBoth<Rem>},
                   {"sub", &decodeBoth<Sub>}});
}

} // namespace ashlar::emulator
