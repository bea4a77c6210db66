// SPDX-License-Identifier: Apache-2.0
//
// Counts of bits, bit fields, bytes and funnel shifts.

#include "test/emulator/ptx/integers.h"

#include <algorithm>
#include <type_traits>

namespace ashlar::emulator {
namespace {

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
  const Type type = qualifiers.takeType();
  decoder.expectOperands(statement, 2, 2);
  decoder.emit(integerHandler<BitReverse, 1>(decoder, type),
               {decoder.destination(statement.operands[0], type), decoder.source(statement.operands[1], type)});
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

void addBitFields(Families &families) {
  families.insert({{"bfe", &decodeExtract},
                   {"bfi", &decodeInsert},
                   {"bfind", &decodeFind},
                   {"brev", &decodeReverse},
                   {"clz", &decodeCount<LeadingZeros>},
                   {"popc", &decodeCount<PopCount>},
                   {"prmt", &decodePermute},
                   {"shf", &decodeFunnelShift}});
}

} // namespace ashlar::emulator
