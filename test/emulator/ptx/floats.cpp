// SPDX-License-Identifier: Apache-2.0
//
// Floating point arithmetic. f16 and bf16 are computed in double and rounded once. Approximate instructions (ex2.approx, rcp.approx) give
// the nearest value, where a GPU may be off by a few units in the last place.

#include "test/emulator/ptx/floats.h"

#include "test/emulator/ptx/lanes.h"

#include <cmath>
#include <cstring>

namespace ashlar::emulator {

float roundDirected(double sum, double error, Rounding rounding) {
  const auto nearest = float(sum);
  if (!std::isfinite(sum) || rounding == Rounding::Nearest) {
    return nearest;
  }
  const bool down = rounding == Rounding::Down || (rounding == Rounding::Zero && (sum > 0 || (sum == 0 && error > 0)));
  // The exact value is sum + error, and |error| is less than the distance to the next double.
  const bool above = double(nearest) > sum || (double(nearest) == sum && error < 0);
  const bool below = double(nearest) < sum || (double(nearest) == sum && error > 0);
  if (down) {
    return above ? std::nextafterf(nearest, -INFINITY) : nearest;
  }
  return below ? std::nextafterf(nearest, INFINITY) : nearest;
}

Rounding takeRounding(Qualifiers &qualifiers) {
  if (qualifiers.take("rz")) {
    return Rounding::Zero;
  }
  if (qualifiers.take("rm")) {
    return Rounding::Down;
  }
  if (qualifiers.take("rp")) {
    return Rounding::Up;
  }
  qualifiers.take("rn");
  return Rounding::Nearest;
}

namespace {

// a + b as a double and what rounding it left out.
struct Exact {
  double sum, error;
};

Exact addExact(double a, double b) {
  const double sum = a + b;
  const double rest = sum - a;
  return {sum, (a - (sum - rest)) + (b - rest)};
}

struct Add {
  template <class T> static T run(T a, T b) { return a + b; }
  static Exact exact(float a, float b) { return addExact(a, b); }
};

struct Sub {
  template <class T> static T run(T a, T b) { return a - b; }
  static Exact exact(float a, float b) { return addExact(a, -double(b)); }
};

struct Mul {
  template <class T> static T run(T a, T b) { return a * b; }
  static Exact exact(float a, float b) { return {double(a) * double(b), 0}; }
};

struct Fma {
  template <class T> static T run(T a, T b, T c) { return std::fma(a, b, c); }
  static Exact exact(float a, float b, float c) { return addExact(double(a) * double(b), c); }
};

struct Div {
  template <class T> static T run(T a, T b) { return a / b; }
};

struct Rcp {
  template <class T> static T run(T a) { return 1 / a; }
};

struct Sqrt {
  template <class T> static T run(T a) { return std::sqrt(a); }
};

struct Rsqrt {
  template <class T> static T run(T a) { return T(1 / std::sqrt(double(a))); }
};

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 read and write the upper half of a double: a start for Newton's method.
double upperHalf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits &= 0xffffffff00000000;
  std::memcpy(&value, &bits, sizeof bits);
  return std::isnormal(value) ? value : value == 0 || std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0, value) : value;
}

template <class Op> struct Gross {
  template <class T> static T run(T a) { return T(upperHalf(Op::run(upperHalf(double(a))))); }
};

struct Ex2 {
  template <class T> static T run(T a) { return std::exp2(a); }
};

struct Lg2 {
  template <class T> static T run(T a) { return std::log2(a); }
};

struct Sin {
  template <class T> static T run(T a) { return std::sin(a); }
};

struct Cos {
  template <class T> static T run(T a) { return std::cos(a); }
};

struct Tanh {
  template <class T> static T run(T a) { return std::tanh(a); }
};

// Without .NaN, the operand that is a number wins; -0 is less than +0.
template <bool kMax, bool kNan> struct Extremum {
  template <class T> static T run(T a, T b) {
    if (std::isnan(a) || std::isnan(b)) {
      return kNan || (std::isnan(a) && std::isnan(b)) ? T(NAN) : std::isnan(a) ? b : a;
    }
    if (a == b) {
      return std::signbit(a) == kMax ? b : a;
    }
    return (a < b) == kMax ? b : a;
  }
};

struct Abs {
  template <class T> static T run(T a) { return std::fabs(a); }
};

struct Neg {
  template <class T> static T run(T a) { return -a; }
};

// The sign of a on b.
struct CopySign {
  template <class T> static T run(T a, T b) { return std::copysign(b, a); }
};

template <class T> T flush(T value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(T(0), value) : value;
}

template <class T> T saturate(T value) {
  return value > 0 ? std::min(value, T(1)) : T(0);
}

// An operation with its modes, on any format.
template <class Op, bool kFlush, bool kSaturate, Rounding kRounding = Rounding::Nearest> struct Apply {
  template <class... A> static float compute(float a, A... rest) {
    if constexpr (kRounding == Rounding::Nearest) {
      return Op::run(a, rest...);
    } else {
      const Exact exact = Op::exact(a, rest...);
      return roundDirected(exact.sum, exact.error, kRounding);
    }
  }
  template <class... A> static double compute(double a, A... rest) { return Op::run(a, rest...); }

  template <class T, class... A> static T modes(T a, A... rest) {
    T result = kFlush ? flush(compute(flush(a), flush(rest)...)) : compute(a, rest...);
    return kSaturate ? saturate(result) : result;
  }
  template <class... A> float operator()(float a, A... rest) const { return modes(a, rest...); }
  template <class... A> double operator()(double a, A... rest) const { return modes(a, rest...); }
  template <int kBits, class... A> Float16<kBits> operator()(Float16<kBits> a, A... rest) const {
    return Float16<kBits>(modes(double(a), double(rest)...));
  }
  template <class T, class... A> Pair<T> operator()(Pair<T> a, A... rest) const {
    return {(*this)(a.low, rest.low...), (*this)(a.high, rest.high...)};
  }
};

template <class F, unsigned kCount, class T> Handler handlerOf() {
  if constexpr (kCount == 1) {
    return &lanes<F, T, T>;
  } else if constexpr (kCount == 2) {
    return &lanes<F, T, T, T>;
  } else {
    return &lanes<F, T, T, T, T>;
  }
}

struct Modes {
  bool flush, saturate;
  Rounding rounding;
};

template <class Op, unsigned kCount> Handler singleHandler(const Modes &modes) {
  if (modes.flush) {
    return modes.saturate ? handlerOf<Apply<Op, true, true>, kCount, float>() : handlerOf<Apply<Op, true, false>, kCount, float>();
  }
  return modes.saturate ? handlerOf<Apply<Op, false, true>, kCount, float>() : handlerOf<Apply<Op, false, false>, kCount, float>();
}

template <class Op, unsigned kCount> Handler anyHandler(Decoder &decoder, Type type, const Modes &modes) {
  if (type == Type::F32 && modes.rounding == Rounding::Nearest) {
    return singleHandler<Op, kCount>(modes);
  }
  if (modes.flush || modes.saturate || modes.rounding != Rounding::Nearest) {
    decoder.fail("a mode of this operation is not known for its type");
  }
  using Plain = Apply<Op, false, false>;
  switch (type) {
  case Type::F16:
    return handlerOf<Plain, kCount, Half>();
  case Type::BF16:
    return handlerOf<Plain, kCount, BFloat>();
  case Type::F16x2:
    return handlerOf<Plain, kCount, Pair<Half>>();
  case Type::BF16x2:
    return handlerOf<Plain, kCount, Pair<BFloat>>();
  case Type::F64:
    return handlerOf<Plain, kCount, double>();
  default:
    decoder.fail("a float operation of this type is not known");
  }
}

// add, sub, mul and fma also round in a direction.
template <class Op, unsigned kCount> Handler directedHandler(Decoder &decoder, Type type, const Modes &modes) {
  if (type != Type::F32 || modes.flush || modes.saturate || modes.rounding == Rounding::Nearest) {
    return anyHandler<Op, kCount>(decoder, type, modes);
  }
  switch (modes.rounding) {
  case Rounding::Zero:
    return handlerOf<Apply<Op, false, false, Rounding::Zero>, kCount, float>();
  case Rounding::Down:
    return handlerOf<Apply<Op, false, false, Rounding::Down>, kCount, float>();
  default:
    return handlerOf<Apply<Op, false, false, Rounding::Up>, kCount, float>();
  }
}

using Choose = Handler (*)(Decoder &, Type, const Modes &);

struct FloatOp {
  unsigned operands;
  Choose choose;
};

const FloatOp &floatOp(Decoder &decoder, const std::string &name) {
  static const std::unordered_map<std::string_view, FloatOp> kOps = {{"abs", {1, &anyHandler<Abs, 1>}},
                                                                     {"add", {2, &directedHandler<Add, 2>}},
                                                                     {"copysign", {2, &anyHandler<CopySign, 2>}},
                                                                     {"cos", {1, &anyHandler<Cos, 1>}},
                                                                     {"div", {2, &anyHandler<Div, 2>}},
                                                                     {"ex2", {1, &anyHandler<Ex2, 1>}},
                                                                     {"fma", {3, &directedHandler<Fma, 3>}},
                                                                     {"lg2", {1, &anyHandler<Lg2, 1>}},
                                                                     {"mad", {3, &directedHandler<Fma, 3>}},
                                                                     {"max", {2, &anyHandler<Extremum<true, false>, 2>}},
                                                                     {"max.NaN", {2, &anyHandler<Extremum<true, true>, 2>}},
                                                                     {"min", {2, &anyHandler<Extremum<false, false>, 2>}},
                                                                     {"min.NaN", {2, &anyHandler<Extremum<false, true>, 2>}},
                                                                     {"mul", {2, &directedHandler<Mul, 2>}},
                                                                     {"neg", {1, &anyHandler<Neg, 1>}},
                                                                     {"rcp", {1, &anyHandler<Rcp, 1>}},
                                                                     {"rcp.gross", {1, &anyHandler<Gross<Rcp>, 1>}},
                                                                     {"rsqrt.gross", {1, &anyHandler<Gross<Rsqrt>, 1>}},
                                                                     {"rsqrt", {1, &anyHandler<Rsqrt, 1>}},
                                                                     {"sin", {1, &anyHandler<Sin, 1>}},
                                                                     {"sqrt", {1, &anyHandler<Sqrt, 1>}},
                                                                     {"sub", {2, &directedHandler<Sub, 2>}},
                                                                     {"tanh", {1, &anyHandler<Tanh, 1>}}};
  const auto found = kOps.find(name);
  if (found == kOps.end()) {
    decoder.fail("'" + name + "' of floats is not known");
  }
  return found->second;
}

void decodeFloatOnly(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decodeFloat(decoder, qualifiers, statement, qualifiers.takeType());
}

struct IsFinite {
  template <class T> uint8_t operator()(T a) const { return std::isfinite(a); }
};
struct IsInfinite {
  template <class T> uint8_t operator()(T a) const { return std::isinf(a); }
};
struct IsNumber {
  template <class T> uint8_t operator()(T a) const { return !std::isnan(a); }
};
struct IsNotNumber {
  template <class T> uint8_t operator()(T a) const { return std::isnan(a); }
};
struct IsNormal {
  template <class T> uint8_t operator()(T a) const { return std::isnormal(a); }
};
struct IsSubnormal {
  template <class T> uint8_t operator()(T a) const { return std::fpclassify(a) == FP_SUBNORMAL; }
};

void decodeTest(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  static const std::unordered_map<std::string_view, std::pair<Handler, Handler>> kTests = {
      {"finite", {&lanes<IsFinite, uint8_t, float>, &lanes<IsFinite, uint8_t, double>}},
      {"infinite", {&lanes<IsInfinite, uint8_t, float>, &lanes<IsInfinite, uint8_t, double>}},
      {"number", {&lanes<IsNumber, uint8_t, float>, &lanes<IsNumber, uint8_t, double>}},
      {"notanumber", {&lanes<IsNotNumber, uint8_t, float>, &lanes<IsNotNumber, uint8_t, double>}},
      {"normal", {&lanes<IsNormal, uint8_t, float>, &lanes<IsNormal, uint8_t, double>}},
      {"subnormal", {&lanes<IsSubnormal, uint8_t, float>, &lanes<IsSubnormal, uint8_t, double>}}};
  decoder.expectOperands(statement, 2, 2);
  const auto found = kTests.find(qualifiers.takeFirst());
  const Type type = qualifiers.takeType();
  if (found == kTests.end() || (type != Type::F32 && type != Type::F64)) {
    decoder.fail("this 'testp' is not known");
  }
  decoder.emit(type == Type::F32 ? found->second.first : found->second.second,
               {decoder.destination(statement.operands[0], Type::Pred), decoder.source(statement.operands[1], type)});
}

} // namespace

void decodeFloat(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement, Type type) {
  const bool approximate = qualifiers.take("approx");
  bool flush = qualifiers.take("ftz");
  const bool saturate = qualifiers.take("sat"), gross = approximate && flush && type == Type::F64;
  flush &= !gross;
  const FloatOp &op = floatOp(decoder, statement.opcode[0] + (qualifiers.take("NaN") ? ".NaN" : gross ? ".gross" : ""));
  decoder.expectOperands(statement, op.operands + 1, op.operands + 1);
  qualifiers.take("full");
  const Modes modes{flush, saturate, takeRounding(qualifiers)};
  Operands places{decoder.destination(statement.operands[0], type)};
  for (size_t i = 1; i <= op.operands; ++i) {
    places[i] = decoder.source(statement.operands[i], type);
  }
  decoder.emit(op.choose(decoder, type, modes), {}).operand = places;
}

void addFloats(Families &families) {
  for (const std::string_view name : {"copysign", "cos", "ex2", "fma", "lg2", "rcp", "rsqrt", "sin", "sqrt", "tanh"}) {
    families[name] = &decodeFloatOnly;
  }
  families["testp"] = &decodeTest;
}

} // namespace ashlar::emulator
