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

struct PopCount {
  template <class T> uint32_t operator()(T a) const { return unsigned(__builtin_popcountll(a)); }
};

struct LeadingZeros {
  template <class T> uint32_t operator()(T a) const {
    return a == 0 ? unsigned(sizeof(T) * 8) : unsigned(__builtin_clzll(a)) - unsigned(64 - sizeof(T) * 8);
  }
};

struct BitReverse {
  template <class T> T operator()(T a) const { return T(__builtin_bitreverse64(a) >> (64 - sizeof(T) * 8)); }
};

// Position of the highest bit that differs from the sign, or all ones; kShift: how far left it would have to move to the top.
template <bool kShift> struct FindBit {
  template <class T> uint32_t operator()(T a) const {
    const auto bits = std::make_unsigned_t<T>(std::is_signed_v<T> && a < 0 ? ~a : a);
    const unsigned position = bits == 0 ? 0xffffffff : 63 - unsigned(__builtin_clzll(bits));
    return kShift && bits != 0 ? unsigned(sizeof(T) * 8 - 1) - position : position;
  }
};

struct ExtractBits {
  template <class T> T operator()(T a, uint32_t position, uint32_t length) const {
    constexpr unsigned kBits = sizeof(T) * 8;
    position &= 0xff;
    length &= 0xff;
    if (length == 0) {
      return 0;
    }
    const unsigned last = std::min(position + length - 1, kBits - 1);
    const bool sign = std::is_signed_v<T> && ((uint64_t(a) >> last) & 1) != 0;
    const uint64_t shifted = position < kBits ? uint64_t(std::make_unsigned_t<T>(a)) >> position : 0;
    const uint64_t mask = length >= 64 ? ~uint64_t(0) : (uint64_t(1) << length) - 1;
    const uint64_t present = position + length > kBits ? (position >= kBits ? 0 : (uint64_t(1) << (kBits - position)) - 1) : mask;
    return T((shifted & mask & present) | (sign ? ~(mask & present) : 0));
  }
};

struct InsertBits {
  template <class T> T operator()(T a, T b, uint32_t position, uint32_t length) const {
    position &= 0xff;
    length &= 0xff;
    if (position >= sizeof(T) * 8 || length == 0) {
      return b;
    }
    const uint64_t mask = (length >= 64 ? ~uint64_t(0) : (uint64_t(1) << length) - 1) << position;
    return T((b & ~mask) | ((uint64_t(a) << position) & mask));
  }
};

// Bytes of b:a chosen by the four nibbles of c; the nibble's top bit spreads the byte's sign.
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const uint64_t both = uint64_t(b) << 32 | a;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned selector = c >> (4 * i);
      const auto byte = uint8_t(both >> (8 * (selector & 7)));
      const uint32_t value = selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
      result |= value << (8 * i);
    }
    return result;
  }
};

template <bool kLeft, bool kWrap> struct FunnelShift {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const unsigned n = kWrap ? c & 31 : std::min(c, 32u);
    const uint64_t both = uint64_t(b) << 32 | a;
    return kLeft ? uint32_t((both << n) >> 32) : uint32_t(both >> n);
  }
};

// Three operands, of one type.
template <class F> void decodeBinary(Decoder &decoder, const Statement &statement, Type type) {
  decoder.expectOperands(statement, 3, 3);
  decoder.emit(integerHandler<F, 2>(decoder, type),
               {decoder.destination(statement.operands[0], type), decoder.source(statement.operands[1], type),
                decoder.source(statement.operands[2], type)});
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

// popc, clz, bfind: a 32 bit count of what is in a 32 or 64 bit operand.
template <class F> Handler countHandler(Decoder &decoder, Type type) {
  switch (type) {
  case Type::B32:
  case Type::U32:
    return &lanes<F, uint32_t, uint32_t>;
  case Type::B64:
  case Type::U64:
    return &lanes<F, uint32_t, uint64_t>;
  case Type::S32:
    return &lanes<F, uint32_t, int32_t>;
  case Type::S64:
    return &lanes<F, uint32_t, int64_t>;
  default:
    decoder.fail("a count of bits of this type is not known");
  }
}

void emitCount(Decoder &decoder, const Statement &statement, Type type, Handler handler) {
  decoder.expectOperands(statement, 2, 2);
  decoder.emit(handler, {decoder.destination(statement.operands[0], Type::U32), decoder.source(statement.operands[1], type)});
}

template <class F> void decodeCount(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  const Type type = qualifiers.takeType();
  emitCount(decoder, statement, type, countHandler<F>(decoder, type));
}

void decodeFind(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  const Type type = qualifiers.takeType();
  const bool shift = qualifiers.take("shiftamt");
  emitCount(decoder, statement, type, shift ? countHandler<FindBit<true>>(decoder, type) : countHandler<FindBit<false>>(decoder, type));
}

void decodeReverse(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decodeUnary<BitReverse>(decoder, statement, qualifiers.takeType());
}

template <class T> Handler extractHandler() {
  return &lanes<ExtractBits, T, T, uint32_t, uint32_t>;
}

void decodeExtract(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 4, 4);
  const Type type = qualifiers.takeType();
  const auto &operands = statement.operands;
  const Handler handler = type == Type::U32   ? extractHandler<uint32_t>()
                          : type == Type::S32 ? extractHandler<int32_t>()
                          : type == Type::U64 ? extractHandler<uint64_t>()
                                              : extractHandler<int64_t>();
  decoder.emit(handler, {decoder.destination(operands[0], type), decoder.source(operands[1], type), decoder.source(operands[2], Type::U32),
                         decoder.source(operands[3], Type::U32)});
}

void decodeInsert(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 5, 5);
  const Type type = qualifiers.takeType();
  const auto &operands = statement.operands;
  const Handler handler = type == Type::B32 ? &lanes<InsertBits, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>
                                            : &lanes<InsertBits, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>;
  decoder.emit(handler, {decoder.destination(operands[0], type), decoder.source(operands[1], type), decoder.source(operands[2], type),
                         decoder.source(operands[3], Type::U32), decoder.source(operands[4], Type::U32)});
}

// prmt and shf: three operands of 32 bits.
void decodeThree(Decoder &decoder, const Statement &statement, Handler handler) {
  decoder.expectOperands(statement, 4, 4);
  const auto &operands = statement.operands;
  decoder.emit(handler, {decoder.destination(operands[0], Type::B32), decoder.source(operands[1], Type::B32),
                         decoder.source(operands[2], Type::B32), decoder.source(operands[3], Type::B32)});
}

void decodePermute(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  qualifiers.take("b32");
  decodeThree(decoder, statement, &lanes<Permute, uint32_t, uint32_t, uint32_t, uint32_t>);
}

void decodeFunnelShift(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  qualifiers.take("b32");
  const bool left = qualifiers.take("l");
  const bool wrap = qualifiers.take("wrap");
  qualifiers.ignore({"r", "clamp"});
  const Handler left32 = wrap ? &lanes<FunnelShift<true, true>, uint32_t, uint32_t, uint32_t, uint32_t>
                              : &lanes<FunnelShift<true, false>, uint32_t, uint32_t, uint32_t, uint32_t>;
  const Handler right32 = wrap ? &lanes<FunnelShift<false, true>, uint32_t, uint32_t, uint32_t, uint32_t>
                               : &lanes<FunnelShift<false, false>, uint32_t, uint32_t, uint32_t, uint32_t>;
  decodeThree(decoder, statement, left ? left32 : right32);
}

} // namespace

void addIntegers(Families &families) {
  families.insert({{"abs", &decodeBoth<Abs>},
                   {"add", &decodeBoth<Add>},
                   {"bfe", &decodeExtract},
                   {"bfi", &decodeInsert},
                   {"bfind", &decodeFind},
                   {"brev", &decodeReverse},
                   {"clz", &decodeCount<LeadingZeros>},
                   {"div", &decodeBoth<Div>},
                   {"mad", &decodeMad},
                   {"max", &decodeBoth<Max>},
                   {"min", &decodeBoth<Min>},
                   {"mul", &decodeMul},
                   {"neg", &decodeBoth<Neg>},
                   {"popc", &decodeCount<PopCount>},
                   {"prmt", &decodePermute},
                   {"rem", &decodeBoth<Rem>},
                   {"shf", &decodeFunnelShift},
                   {"sub", &decodeBoth<Sub>}});
}

} // namespace ashlar::emulator
