// SPDX-License-Identifier: Apache-2.0
//
// Bits, shifts, comparisons and choices.

#include "test/emulator/ptx/integers.h"

#include <cmath>

namespace ashlar::emulator {
namespace {

struct And {
  template <class T> T operator()(T a, T b) const { return a & b; }
};

struct Or {
  template <class T> T operator()(T a, T b) const { return a | b; }
};

struct Xor {
  template <class T> T operator()(T a, T b) const { return a ^ b; }
};

struct Not {
  template <class T> T operator()(T a) const { return ~a; }
};

struct NotPredicate {
  uint8_t operator()(uint8_t a) const { return a == 0; }
};

struct IsZero {
  template <class T> T operator()(T a) const { return a == 0; }
};

struct ShiftLeft {
  template <class T> T operator()(T a, uint32_t n) const { return n >= sizeof(T) * 8 ? T(0) : T(uint64_t(a) << n); }
};

// Signed types shift their sign in.
struct ShiftRight {
  template <class T> T operator()(T a, uint32_t n) const { return T(n >= sizeof(T) * 8 ? (a < 0 ? -1 : 0) : a >> n); }
};

// Bit i of the result is bit (a_i, b_i, c_i) of the table.
struct Lookup {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c, uint32_t table) const {
    uint32_t result = 0;
    for (unsigned i = 0; i < 8; ++i) {
      if (table >> i & 1) {
        result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
      }
    }
    return result;
  }
};

struct TakeLow {
  uint16_t operator()(uint32_t pair) const { return uint16_t(pair); }
};

struct TakeHigh {
  uint16_t operator()(uint32_t pair) const { return uint16_t(pair >> 16); }
};

struct Select {
  template <class T> T operator()(T a, T b, uint8_t predicate) const { return predicate ? a : b; }
};

enum class Comparison { Eq, Ne, Lt, Le, Gt, Ge, Number, NotNumber };

template <Comparison kComparison, bool kUnordered> struct Compare {
  template <class T> uint8_t operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat>) {
      return Compare()(float(double(a)), float(double(b)));
    } else {
      const bool unordered = a != a || b != b;
      switch (kComparison) {
      case Comparison::Number:
        return !unordered;
      case Comparison::NotNumber:
        return unordered;
      case Comparison::Eq:
        return unordered ? kUnordered : a == b;
      case Comparison::Ne:
        return unordered ? kUnordered : a != b;
      case Comparison::Lt:
        return unordered ? kUnordered : a < b;
      case Comparison::Le:
        return unordered ? kUnordered : a <= b;
      case Comparison::Gt:
        return unordered ? kUnordered : a > b;
      case Comparison::Ge:
        return unordered ? kUnordered : a >= b;
      }
    }
  }
};

template <class F> Handler comparisonHandler(Decoder &decoder, Type type) {
  switch (type) {
  case Type::F16:
    return &lanes<F, uint8_t, Half, Half>;
  case Type::BF16:
    return &lanes<F, uint8_t, BFloat, BFloat>;
  case Type::F32:
    return &lanes<F, uint8_t, float, float>;
  case Type::F64:
    return &lanes<F, uint8_t, double, double>;
  case Type::B16:
  case Type::U16:
    return &lanes<F, uint8_t, uint16_t, uint16_t>;
  case Type::B32:
  case Type::U32:
    return &lanes<F, uint8_t, uint32_t, uint32_t>;
  case Type::B64:
  case Type::U64:
    return &lanes<F, uint8_t, uint64_t, uint64_t>;
  case Type::S16:
    return &lanes<F, uint8_t, int16_t, int16_t>;
  case Type::S32:
    return &lanes<F, uint8_t, int32_t, int32_t>;
  case Type::S64:
    return &lanes<F, uint8_t, int64_t, int64_t>;
  default:
    decoder.fail("a comparison of this type is not known");
  }
}

Handler comparisonHandler(Decoder &decoder, const std::string &name, Type type) {
  using C = Comparison;
  static const std::unordered_map<std::string_view, Handler (*)(Decoder &, Type)> kComparisons = {
      {"eq", &comparisonHandler<Compare<C::Eq, false>>},      {"ne", &comparisonHandler<Compare<C::Ne, false>>},
      {"lt", &comparisonHandler<Compare<C::Lt, false>>},      {"le", &comparisonHandler<Compare<C::Le, false>>},
      {"gt", &comparisonHandler<Compare<C::Gt, false>>},      {"ge", &comparisonHandler<Compare<C::Ge, false>>},
      {"lo", &comparisonHandler<Compare<C::Lt, false>>},      {"ls", &comparisonHandler<Compare<C::Le, false>>},
      {"hi", &comparisonHandler<Compare<C::Gt, false>>},      {"hs", &comparisonHandler<Compare<C::Ge, false>>},
      {"equ", &comparisonHandler<Compare<C::Eq, true>>},      {"neu", &comparisonHandler<Compare<C::Ne, true>>},
      {"ltu", &comparisonHandler<Compare<C::Lt, true>>},      {"leu", &comparisonHandler<Compare<C::Le, true>>},
      {"gtu", &comparisonHandler<Compare<C::Gt, true>>},      {"geu", &comparisonHandler<Compare<C::Ge, true>>},
      {"num", &comparisonHandler<Compare<C::Number, false>>}, {"nan", &comparisonHandler<Compare<C::NotNumber, false>>}};
  const auto found = kComparisons.find(name);
  if (found == kComparisons.end()) {
    decoder.fail("comparison '." + name + "' is not known");
  }
  return found->second(decoder, type);
}

template <class F> Handler bitsHandler(Decoder &decoder, Type type) {
  if (type == Type::Pred) {
    return &lanes<F, uint8_t, uint8_t, uint8_t>;
  }
  return integerHandler<F, 2>(decoder, type);
}

template <class F> void decodeBits(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 3, 3);
  const Type type = qualifiers.takeType();
  decoder.emit(bitsHandler<F>(decoder, type), {decoder.destination(statement.operands[0], type),
                                               decoder.source(statement.operands[1], type), decoder.source(statement.operands[2], type)});
}

void decodeNot(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 2, 2);
  const Type type = qualifiers.takeType();
  const Handler handler = type == Type::Pred              ? &lanes<NotPredicate, uint8_t, uint8_t>
                          : statement.opcode[0] == "cnot" ? integerHandler<IsZero, 1>(decoder, type)
                                                          : integerHandler<Not, 1>(decoder, type);
  decoder.emit(handler, {decoder.destination(statement.operands[0], type), decoder.source(statement.operands[1], type)});
}

template <class F> Handler shiftHandler(Decoder &decoder, Type type) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return &lanes<F, uint16_t, uint16_t, uint32_t>;
  case Type::B32:
  case Type::U32:
    return &lanes<F, uint32_t, uint32_t, uint32_t>;
  case Type::B64:
  case Type::U64:
    return &lanes<F, uint64_t, uint64_t, uint32_t>;
  case Type::S16:
    return &lanes<F, int16_t, int16_t, uint32_t>;
  case Type::S32:
    return &lanes<F, int32_t, int32_t, uint32_t>;
  case Type::S64:
    return &lanes<F, int64_t, int64_t, uint32_t>;
  default:
    decoder.fail("a shift of this type is not known");
  }
}

template <class F> void decodeShift(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 3, 3);
  const Type type = qualifiers.takeType();
  decoder.emit(shiftHandler<F>(decoder, type),
               {decoder.destination(statement.operands[0], type), decoder.source(statement.operands[1], type),
                decoder.source(statement.operands[2], Type::U32)});
}

void decodeLookup(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 5, 5);
  const Type type = qualifiers.takeType();
  const auto &operands = statement.operands;
  decoder.emit(&lanes<Lookup, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>,
               {decoder.destination(operands[0], type), decoder.source(operands[1], type), decoder.source(operands[2], type),
                decoder.source(operands[3], type), decoder.source(operands[4], Type::U32)});
}

// Combines a predicate with the third operand of setp.
void emitCombine(Decoder &decoder, const std::string &with, uint32_t out, uint32_t compared, const Operand &third) {
  uint32_t other = decoder.source(third, Type::Pred);
  if (third.negated) {
    const uint32_t place = decoder.temporary(1);
    decoder.emit(&lanes<NotPredicate, uint8_t, uint8_t>, {place, other});
    other = place;
  }
  const Handler handler = with == "and"  ? &lanes<And, uint8_t, uint8_t, uint8_t>
                          : with == "or" ? &lanes<Or, uint8_t, uint8_t, uint8_t>
                                         : &lanes<Xor, uint8_t, uint8_t, uint8_t>;
  decoder.emit(handler, {out, compared, other});
}

// setp.lt.f16x2 p|q, a, b: p of the lower halves, q of the upper ones.
void decodeSetPair(Decoder &decoder, const std::string &comparison, Type type, const Statement &statement) {
  decoder.expectOperands(statement, 3, 3);
  const auto &operands = statement.operands;
  const Type half = type == Type::F16x2 ? Type::F16 : Type::BF16;
  const uint32_t a = decoder.source(operands[1], type), b = decoder.source(operands[2], type);
  for (const bool high : {false, true}) {
    const uint32_t aHalf = decoder.temporary(2), bHalf = decoder.temporary(2);
    const Handler take = high ? &lanes<TakeHigh, uint16_t, uint32_t> : &lanes<TakeLow, uint16_t, uint32_t>;
    decoder.emit(take, {aHalf, a});
    decoder.emit(take, {bHalf, b});
    const Operand out{Operand::Name, high ? operands[0].second : operands[0].name};
    decoder.emit(comparisonHandler(decoder, comparison, half), {decoder.destination(out, Type::Pred), aHalf, bHalf});
  }
}

// setp.lt{.and}.f32 p{|q}, a, b{, c}: p = a < b and c; q = not (a < b) and c.
void decodeSetPredicate(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  const std::string comparison = qualifiers.takeFirst();
  const std::string with = qualifiers.take("and") ? "and" : qualifiers.take("or") ? "or" : qualifiers.take("xor") ? "xor" : "";
  const Type type = qualifiers.takeType();
  if (type == Type::F16x2 || type == Type::BF16x2) {
    decodeSetPair(decoder, comparison, type, statement);
    return;
  }
  decoder.expectOperands(statement, with.empty() ? 3 : 4, with.empty() ? 3 : 4);
  const auto &operands = statement.operands;
  const uint32_t compared = decoder.temporary(1), opposite = decoder.temporary(1);
  const uint32_t a = decoder.source(operands[1], type), b = decoder.source(operands[2], type);
  decoder.emit(comparisonHandler(decoder, comparison, type), {compared, a, b});
  decoder.emit(&lanes<NotPredicate, uint8_t, uint8_t>, {opposite, compared});
  const auto finish = [&](const std::string &name, uint32_t value) {
    const uint32_t out = decoder.destination({Operand::Name, name}, Type::Pred);
    if (with.empty()) {
      decoder.emit(&lanes<And, uint8_t, uint8_t, uint8_t>, {out, value, value});
    } else {
      emitCombine(decoder, with, out, value, operands[3]);
    }
  };
  if (!operands[0].second.empty()) {
    finish(operands[0].second, opposite);
  }
  finish(operands[0].name, compared);
}

// set.lt.u32.f32 d, a, b: all ones or 0; 1.0 or 0.0 when d is a float.
void decodeSet(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 3, 3);
  const std::string comparison = qualifiers.takeFirst();
  const Type to = qualifiers.takeType(), from = qualifiers.takeType();
  const uint32_t compared = decoder.temporary(1);
  const auto &operands = statement.operands;
  decoder.emit(comparisonHandler(decoder, comparison, from),
               {compared, decoder.source(operands[1], from), decoder.source(operands[2], from)});
  const uint32_t yes = decoder.constant(to == Type::F32 ? 0x3f800000 : 0xffffffff, 4);
  decoder.emit(&lanes<Select, uint32_t, uint32_t, uint32_t, uint8_t>,
               {decoder.destination(operands[0], to), yes, decoder.constant(0, 4), compared});
}

void decodeSelect(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 4, 4);
  const Type type = qualifiers.takeType();
  const auto &operands = statement.operands;
  const Handler handler = widthOf(type) == 2   ? &lanes<Select, uint16_t, uint16_t, uint16_t, uint8_t>
                          : widthOf(type) == 4 ? &lanes<Select, uint32_t, uint32_t, uint32_t, uint8_t>
                                               : &lanes<Select, uint64_t, uint64_t, uint64_t, uint8_t>;
  decoder.emit(handler, {decoder.destination(operands[0], type), decoder.source(operands[1], type), decoder.source(operands[2], type),
                         decoder.source(operands[3], Type::Pred)});
}

} // namespace

void addLogic(Families &families) {
  families.insert({{"and", &decodeBits<And>},
                   {"cnot", &decodeNot},
                   {"lop3", &decodeLookup},
                   {"not", &decodeNot},
                   {"or", &decodeBits<Or>},
                   {"selp", &decodeSelect},
                   {"set", &decodeSet},
                   {"setp", &decodeSetPredicate},
                   {"shl", &decodeShift<ShiftLeft>},
                   {"shr", &decodeShift<ShiftRight>},
                   {"xor", &decodeBits<Xor>}});
}

} // namespace ashlar::emulator
