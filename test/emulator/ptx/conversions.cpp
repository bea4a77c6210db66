// SPDX-License-Identifier: Apache-2.0
//
// cvt: between all types, and from two floats to a pair of f16 or bf16. Values travel as a double where that is exact, as integers
// otherwise.

#include "test/emulator/ptx/floats.h"

#include "test/emulator/ptx/lanes.h"

#include <cmath>
#include <limits>

namespace ashlar::emulator {
namespace {

// Packed into the immediate of a conversion.
struct Mode {
  Rounding rounding;
  bool toInteger; // round to a whole number
  bool saturate, flush;

  int64_t pack() const { return int64_t(rounding) | toInteger << 4 | saturate << 5 | flush << 6; }
  static Mode unpack(int64_t bits) { return {Rounding(bits & 15), (bits & 16) != 0, (bits & 32) != 0, (bits & 64) != 0}; }
};

template <class T> constexpr bool kIs16 = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;
template <class T> constexpr bool kIsFloat = std::is_floating_point_v<T> || kIs16<T>;

double roundWhole(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  default:
    return std::nearbyint(value);
  }
}

// Out of range gives the nearest value in range, NaN gives 0.
template <class To> To toInteger(double value, Rounding rounding) {
  if (std::isnan(value)) {
    return 0;
  }
  const double whole = roundWhole(value, rounding);
  if (whole <= double(std::numeric_limits<To>::min())) {
    return std::numeric_limits<To>::min();
  }
  // The double next to the largest value may be one beyond it.
  if (whole >= std::ldexp(1.0, std::numeric_limits<To>::digits)) {
    return std::numeric_limits<To>::max();
  }
  return To(whole);
}

template <class To, class From> To clampInteger(From value) {
  const __int128 wide = value;
  const __int128 least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
  return To(wide < least ? least : wide > most ? most : wide);
}

double flushSubnormal(double value) {
  return std::fabs(value) < 0x1p-126 ? std::copysign(0.0, value) : value;
}

template <class To> To toFloat(double value, const Mode &mode) {
  if (mode.flush) {
    value = flushSubnormal(value);
  }
  if (mode.toInteger) {
    value = roundWhole(value, mode.rounding);
  }
  if (mode.saturate) {
    value = value > 0 ? std::min(value, 1.0) : 0.0;
  }
  if constexpr (std::is_same_v<To, float>) {
    const float result = mode.toInteger ? float(value) : roundDirected(value, 0, mode.rounding);
    return mode.flush ? float(flushSubnormal(result)) : result;
  } else {
    return To(value);
  }
}

template <class To, class From> To convert(From value, const Mode &mode) {
  if constexpr (kIsFloat<From> && kIsFloat<To>) {
    return toFloat<To>(double(value), mode);
  } else if constexpr (kIsFloat<From>) {
    return toInteger<To>(mode.flush ? flushSubnormal(double(value)) : double(value), mode.rounding);
  } else if constexpr (kIsFloat<To>) {
    // A 64 bit integer need not fit a double: it is rounded once.
    if constexpr (std::is_same_v<To, float>) {
      return mode.rounding == Rounding::Nearest ? float(value) : roundDirected(double(value), 0, mode.rounding);
    } else {
      return To(double(value));
    }
  } else {
    return mode.saturate ? clampInteger<To>(value) : To(value);
  }
}

template <class To, class From> void convertLanes(Warp &warp, const Instruction &instruction, uint32_t mask) {
  To *out = warp.slot<To>(instruction.operand[0]);
  const From *in = warp.slot<From>(instruction.operand[1]);
  const Mode mode = Mode::unpack(instruction.immediate);
  forEachLane(mask, [&](unsigned lane) { out[lane] = convert<To>(in[lane], mode); });
}

template <class From> Handler convertFrom(Decoder &decoder, Type to) {
  switch (to) {
  case Type::U8:
  case Type::B8:
    return &convertLanes<uint8_t, From>;
  case Type::S8:
    return &convertLanes<int8_t, From>;
  case Type::U16:
    return &convertLanes<uint16_t, From>;
  case Type::S16:
    return &convertLanes<int16_t, From>;
  case Type::U32:
    return &convertLanes<uint32_t, From>;
  case Type::S32:
    return &convertLanes<int32_t, From>;
  case Type::U64:
    return &convertLanes<uint64_t, From>;
  case Type::S64:
    return &convertLanes<int64_t, From>;
  case Type::F16:
    return &convertLanes<Half, From>;
  case Type::BF16:
    return &convertLanes<BFloat, From>;
  case Type::F32:
    return &convertLanes<float, From>;
  case Type::F64:
    return &convertLanes<double, From>;
  default:
    decoder.fail("a conversion to this type is not known");
  }
}

Handler convertHandler(Decoder &decoder, Type to, Type from) {
  switch (from) {
  case Type::U8:
    return convertFrom<uint8_t>(decoder, to);
  case Type::S8:
    return convertFrom<int8_t>(decoder, to);
  case Type::U16:
    return convertFrom<uint16_t>(decoder, to);
  case Type::S16:
    return convertFrom<int16_t>(decoder, to);
  case Type::U32:
    return convertFrom<uint32_t>(decoder, to);
  case Type::S32:
    return convertFrom<int32_t>(decoder, to);
  case Type::U64:
    return convertFrom<uint64_t>(decoder, to);
  case Type::S64:
    return convertFrom<int64_t>(decoder, to);
  case Type::F16:
    return convertFrom<Half>(decoder, to);
  case Type::BF16:
    return convertFrom<BFloat>(decoder, to);
  case Type::F32:
    return convertFrom<float>(decoder, to);
  case Type::F64:
    return convertFrom<double>(decoder, to);
  default:
    decoder.fail("a conversion from this type is not known");
  }
}

// cvt.rn.bf16x2.f32 d, a, b: a becomes the upper half.
template <class T> struct Pack {
  Pair<T> operator()(float a, float b) const { return {T(double(b)), T(double(a))}; }
};

void decodePack(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement, Type to) {
  decoder.expectOperands(statement, 3, 3);
  if (qualifiers.takeType() != Type::F32 || takeRounding(qualifiers) != Rounding::Nearest) {
    decoder.fail("a conversion to a pair is known only from f32, to nearest");
  }
  const Handler handler =
      to == Type::F16x2 ? &lanes<Pack<Half>, Pair<Half>, float, float> : &lanes<Pack<BFloat>, Pair<BFloat>, float, float>;
  const auto &operands = statement.operands;
  decoder.emit(handler,
               {decoder.destination(operands[0], to), decoder.source(operands[1], Type::F32), decoder.source(operands[2], Type::F32)});
}

// "rni" and the like round to whole numbers.
Rounding takeWholeRounding(Qualifiers &qualifiers, bool &whole) {
  static const std::pair<std::string_view, Rounding> kNames[] = {
      {"rni", Rounding::Nearest}, {"rzi", Rounding::Zero}, {"rmi", Rounding::Down}, {"rpi", Rounding::Up}};
  for (const auto &[name, rounding] : kNames) {
    if (qualifiers.take(name)) {
      whole = true;
      return rounding;
    }
  }
  whole = false;
  return takeRounding(qualifiers);
}

void decodeConvert(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  const Type to = qualifiers.takeType();
  if (to == Type::F16x2 || to == Type::BF16x2) {
    decodePack(decoder, qualifiers, statement, to);
    return;
  }
  decoder.expectOperands(statement, 2, 2);
  const Type from = qualifiers.takeType();
  Mode mode;
  mode.rounding = takeWholeRounding(qualifiers, mode.toInteger);
  mode.saturate = qualifiers.take("sat");
  mode.flush = qualifiers.take("ftz");
  if ((to == Type::F16 || to == Type::BF16) && mode.rounding != Rounding::Nearest) {
    decoder.fail("a conversion to 16 bits is known only to nearest");
  }
  const uint32_t in = decoder.narrowSource(statement.operands[1], from);
  const uint32_t out = decoder.narrowDestination(statement.operands[0], to);
  decoder.emit(convertHandler(decoder, to, from), {out, in}, mode.pack());
  decoder.widen(statement.operands[0], to, out);
}

} // namespace

void addConversions(Families &families) {
  families["cvt"] = &decodeConvert;
}

} // namespace ashlar::emulator
