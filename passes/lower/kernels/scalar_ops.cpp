// SPDX-License-Identifier: Apache-2.0
//
// The scalar form of every element-wise nn op. exp, log, tanh and erf stay math ops here: the target decides how to approximate them.

#include "passes/lower/kernels/scalar_emitter.h"

#include "dialects/nn/functions.h"
#include "dialects/support/integer_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::lower {

namespace {

using Builder = ImplicitLocOpBuilder;

// The terms of a sum may be reordered: that is what lets it vectorise. The sign of a sum that is 0 is lost. Element-wise ops are IEEE
// 754's, with NaN, infinities, signs of zero and subnormal numbers: an element does not depend on its place in a loop, and a value that two
// kernels compute, each for itself, is the same number in both, or a maximum is not found again where its gradient goes.
constexpr arith::FastMathFlags kReordered = arith::FastMathFlags::reassoc | arith::FastMathFlags::nsz;

bool isFloat(Value value) {
  return isa<FloatType>(value.getType());
}

Value constant(Builder &b, Type type, double value) {
  if (isa<FloatType>(type)) {
    return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
  }
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, static_cast<int64_t>(value)));
}

// Integers have no sign in arith: whether the element type has one is asked of the nn op, and said here.
Value compare(Builder &b, nn::Predicate predicate, Value lhs, Value rhs, bool isUnsigned = false) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I ints[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I words[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  auto which = static_cast<size_t>(predicate);
  if (isFloat(lhs)) {
    return arith::CmpFOp::create(b, floats[which], lhs, rhs);
  }
  return arith::CmpIOp::create(b, isUnsigned ? words[which] : ints[which], lhs, rhs);
}

Value isPositive(Builder &b, Value x, bool isUnsigned = false) {
  return compare(b, nn::Predicate::Gt, x, constant(b, x.getType(), 0), isUnsigned);
}

template <typename FloatOp, typename IntOp> Value arithmetic(Builder &b, ValueRange operands) {
  if (isFloat(operands[0])) {
    return b.createOrFold<FloatOp>(operands[0], operands[1]); // emitPow looks for a constant
  }
  return IntOp::create(b, operands[0], operands[1]);
}

// The larger or the smaller of two.
Value extremum(Builder &b, bool isMax, Value lhs, Value rhs, bool isUnsigned, arith::FastMathFlags flags = arith::FastMathFlags::none) {
  if (isFloat(lhs)) {
    return isMax ? Value(arith::MaximumFOp::create(b, lhs, rhs, flags)) : Value(arith::MinimumFOp::create(b, lhs, rhs, flags));
  }
  if (isUnsigned) {
    return isMax ? Value(arith::MaxUIOp::create(b, lhs, rhs)) : Value(arith::MinUIOp::create(b, lhs, rhs));
  }
  return isMax ? Value(arith::MaxSIOp::create(b, lhs, rhs)) : Value(arith::MinSIOp::create(b, lhs, rhs));
}

// Integers: x / 0 is 0 and the lowest value / -1 wraps around, where the processor's instruction would trap.
Value divide(Builder &b, Value lhs, Value rhs, bool isUnsigned = false) {
  if (isFloat(lhs)) {
    return arith::DivFOp::create(b, lhs, rhs);
  }
  Type type = lhs.getType();
  Value zero = constant(b, type, 0), one = constant(b, type, 1), byZero = compare(b, nn::Predicate::Eq, rhs, zero);
  if (isUnsigned) {
    Value quotient = arith::DivUIOp::create(b, lhs, arith::SelectOp::create(b, byZero, one, rhs));
    return arith::SelectOp::create(b, byZero, zero, quotient);
  }
  Value byMinusOne = compare(b, nn::Predicate::Eq, rhs, constant(b, type, -1));
  Value safe = arith::SelectOp::create(b, arith::OrIOp::create(b, byZero, byMinusOne), one, rhs);
  Value quotient = arith::DivSIOp::create(b, lhs, safe);
  Value negated = arith::SubIOp::create(b, zero, lhs);
  return arith::SelectOp::create(b, byZero, zero, arith::SelectOp::create(b, byMinusOne, negated, quotient));
}

// Neither above nor below 0 are zeros, which keep their sign, and NaN.
Value emitSign(Builder &b, Value x, bool isUnsigned) {
  Value zero = constant(b, x.getType(), 0);
  Value below = arith::SelectOp::create(b, compare(b, nn::Predicate::Lt, x, zero, isUnsigned), constant(b, x.getType(), -1), x);
  return arith::SelectOp::create(b, isPositive(b, x, isUnsigned), constant(b, x.getType(), 1), below);
}

// 1 / (1 + e^-x) = e^x / (1 + e^x), of which that one whose exponential is at most 1: it can become subnormal, but not overflow.
Value emitSigmoid(Builder &b, Value x) {
  Value one = constant(b, x.getType(), 1), zero = constant(b, x.getType(), 0);
  Value exponential = math::ExpOp::create(b, arith::NegFOp::create(b, math::AbsFOp::create(b, x)));
  Value numerator = arith::SelectOp::create(b, compare(b, nn::Predicate::Lt, x, zero), exponential, one);
  return divide(b, numerator, arith::AddFOp::create(b, one, exponential));
}

Value emitGelu(Builder &b, nn::GeluOp op, Value x) {
  Type type = x.getType();
  Value inner;
  if (op.getTanhApproximation()) {
    Value cube = arith::MulFOp::create(b, arith::MulFOp::create(b, x, x), x);
    Value sum = arith::AddFOp::create(b, x, arith::MulFOp::create(b, cube, constant(b, type, 0.044715)));
    inner = math::TanhOp::create(b, arith::MulFOp::create(b, sum, constant(b, type, std::sqrt(2 / M_PI))));
  } else {
    inner = math::ErfOp::create(b, arith::MulFOp::create(b, x, constant(b, type, std::sqrt(0.5))));
  }
  Value half = arith::MulFOp::create(b, x, constant(b, type, 0.5));
  return arith::MulFOp::create(b, half, arith::AddFOp::create(b, inner, constant(b, type, 1)));
}

// Truncates toward zero; what the integer type does not hold becomes the nearest number that it does, and NaN 0, where the processor's
// instruction would give anything.
Value emitInteger(Builder &b, Value x, Type element) {
  Type to = computedType(element);
  const double end = std::ldexp(1.0, static_cast<int>(to.getIntOrFloatBitWidth()) - (isUnsigned(element) ? 0 : 1));
  Value low = constant(b, x.getType(), isUnsigned(element) ? 0 : -end), high = constant(b, x.getType(), end);
  Value isLow = compare(b, nn::Predicate::Lt, x, low), isHigh = compare(b, nn::Predicate::Ge, x, high);
  Value fits = arith::AndIOp::create(b, compare(b, nn::Predicate::Ge, x, low), compare(b, nn::Predicate::Lt, x, high));
  Value fitting = arith::SelectOp::create(b, fits, x, constant(b, x.getType(), 0));
  Value integer = isUnsigned(element) ? Value(arith::FPToUIOp::create(b, to, fitting)) : Value(arith::FPToSIOp::create(b, to, fitting));
  Value most = arith::ConstantOp::create(b, b.getIntegerAttr(to, highestInteger(element)));
  Value least = arith::ConstantOp::create(b, b.getIntegerAttr(to, lowestInteger(element)));
  return arith::SelectOp::create(b, isHigh, most, arith::SelectOp::create(b, isLow, least, integer));
}

// `element`, `result`: the element types as nn has them. The bits are those that an element has in memory.
Value emitBitcast(Builder &b, Value x, Type element, Type result) {
  Type from = storedType(element), to = storedType(result);
  if (from == to) {
    return x;
  }
  Value stored = x.getType() == from ? x : Value(arith::TruncFOp::create(b, from, x)); // exact, but for which NaN it is
  Value taken = arith::BitcastOp::create(b, to, stored);
  return to == computedType(result) ? taken : Value(arith::ExtFOp::create(b, computedType(result), taken));
}

// `element`, `result`: the element types as nn has them.
Value emitCast(Builder &b, Value x, Type element, Type result) {
  Type from = x.getType(), to = computedType(result);
  if (result.isInteger(1)) {
    return element == result ? x : compare(b, nn::Predicate::Ne, x, constant(b, from, 0));
  }
  if (from == to) {
    return x;
  }
  if (isa<FloatType>(from)) {
    if (isa<FloatType>(to)) {
      return from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth() ? Value(arith::ExtFOp::create(b, to, x))
                                                                       : Value(arith::TruncFOp::create(b, to, x));
    }
    return emitInteger(b, x, result);
  }
  if (isa<FloatType>(to)) {
    return isUnsigned(element) ? Value(arith::UIToFPOp::create(b, to, x)) : Value(arith::SIToFPOp::create(b, to, x));
  }
  if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth()) {
    return arith::TruncIOp::create(b, to, x);
  }
  return isUnsigned(element) ? Value(arith::ExtUIOp::create(b, to, x)) : Value(arith::ExtSIOp::create(b, to, x));
}

// x^(1/2) as pow has it: 0 for -0 and infinite for -infinity.
Value emitRoot(Builder &b, Value x) {
  Value infinity = constant(b, x.getType(), std::numeric_limits<double>::infinity());
  Value isLowest = compare(b, nn::Predicate::Eq, x, arith::NegFOp::create(b, infinity));
  return arith::SelectOp::create(b, isLowest, infinity, math::AbsFOp::create(b, math::SqrtOp::create(b, x)));
}

// Small constant exponents become products and roots; anything else calls pow.
Value emitPow(Builder &b, Value x, Value exponent) {
  if (auto known = exponent.getDefiningOp<arith::ConstantOp>()) {
    double value = cast<FloatAttr>(known.getValue()).getValueAsDouble();
    if (value == 2 || value == 3) {
      Value square = arith::MulFOp::create(b, x, x);
      return value == 2 ? square : arith::MulFOp::create(b, square, x);
    }
    if (value == 1) {
      return x;
    }
    if (std::abs(value) == 0.5) {
      Value root = emitRoot(b, x);
      return value > 0 ? root : divide(b, constant(b, x.getType(), 1), root);
    }
  }
  return math::PowFOp::create(b, x, exponent);
}

Value shiftRight(Builder &b, Value x, int64_t bits) {
  return arith::ShRUIOp::create(b, x, constant(b, x.getType(), bits));
}

// Philox4x32-10 of the four counter words under the two key words.
SmallVector<Value> emitPhilox(Builder &b, SmallVector<Value> counter, SmallVector<Value> key) {
  Type word = b.getI32Type();
  Value multiplier0 = constant(b, word, static_cast<int32_t>(0xD2511F53)),
        multiplier1 = constant(b, word, static_cast<int32_t>(0xCD9E8D57));
  Value weyl0 = constant(b, word, static_cast<int32_t>(0x9E3779B9)), weyl1 = constant(b, word, static_cast<int32_t>(0xBB67AE85));
  for (int round = 0; round < 10; ++round) {
    auto product0 = arith::MulUIExtendedOp::create(b, multiplier0, counter[0]);
    auto product1 = arith::MulUIExtendedOp::create(b, multiplier1, counter[2]);
    Value word0 = arith::XOrIOp::create(b, arith::XOrIOp::create(b, product1.getHigh(), counter[1]), key[0]);
    Value word2 = arith::XOrIOp::create(b, arith::XOrIOp::create(b, product0.getHigh(), counter[3]), key[1]);
    counter = {word0, product1.getLow(), word2, product0.getLow()};
    key = {arith::AddIOp::create(b, key[0], weyl0), arith::AddIOp::create(b, key[1], weyl1)};
  }
  return counter;
}

// Uniform in [0, 1) from one word (f32) or two (f64); the formulas are those of nn.random.
Value emitUnit(Builder &b, Type type, Value word0, Value word1) {
  if (type.isF32()) {
    return arith::MulFOp::create(b, arith::UIToFPOp::create(b, type, shiftRight(b, word0, 8)), constant(b, type, 0x1p-24));
  }
  Value high = arith::UIToFPOp::create(b, type, shiftRight(b, word0, 5)), low = arith::UIToFPOp::create(b, type, shiftRight(b, word1, 6));
  Value sum = arith::AddFOp::create(b, arith::MulFOp::create(b, high, constant(b, type, 0x1p26)), low);
  return arith::MulFOp::create(b, sum, constant(b, type, 0x1p-53));
}

Value emitRandom(Builder &b, nn::RandomOp op, ValueRange operands) {
  Type word = b.getI32Type(), type = computedType(op.getType().getElementType());
  auto low = [&](Value x) -> Value { return arith::TruncIOp::create(b, word, x); };
  auto high = [&](Value x) -> Value { return arith::TruncIOp::create(b, word, shiftRight(b, x, 32)); };
  Value index = operands[0], seed = operands[1], counter = operands[2], stream = operands[3];
  SmallVector<Value> words = emitPhilox(b, {low(index), high(index), low(counter), stream}, {low(seed), high(seed)});
  Value uniform = emitUnit(b, type, words[0], words[1]);
  if (op.getDistribution() == nn::Distribution::Uniform) {
    return uniform;
  }
  Value angle = type.isF32() ? emitUnit(b, type, words[1], {}) : emitUnit(b, type, words[2], words[3]);
  Value logarithm = math::LogOp::create(b, arith::SubFOp::create(b, constant(b, type, 1), uniform));
  Value radius = math::SqrtOp::create(b, arith::MulFOp::create(b, constant(b, type, -2), logarithm));
  return arith::MulFOp::create(b, radius, math::CosOp::create(b, arith::MulFOp::create(b, angle, constant(b, type, 2 * M_PI))));
}

// Of an integer without math.absi, which the cuda target has no code for.
Value emitAbs(Builder &b, Value x, bool isUnsigned) {
  if (isFloat(x)) {
    return math::AbsFOp::create(b, x);
  }
  if (isUnsigned) {
    return x;
  }
  return arith::MaxSIOp::create(b, x, arith::SubIOp::create(b, constant(b, x.getType(), 0), x));
}

Value emitNeg(Builder &b, Value x) {
  return isFloat(x) ? Value(arith::NegFOp::create(b, x)) : Value(arith::SubIOp::create(b, constant(b, x.getType(), 0), x));
}

} // namespace

Value emitScalarOp(Builder &b, Operation *op, ValueRange in) {
  auto elementOf = [](Value value) { return typeOf(value).getElementType(); };
  const bool hasNoSign = op->getNumOperands() > 0 && isUnsigned(elementOf(op->getOperand(0)));
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](nn::AbsOp) { return emitAbs(b, in[0], hasNoSign); })
      .Case([&](nn::AcosOp) { return math::AcosOp::create(b, in[0]); })
      .Case([&](nn::AcoshOp) { return math::AcoshOp::create(b, in[0]); })
      .Case([&](nn::AddOp) { return arithmetic<arith::AddFOp, arith::AddIOp>(b, in); })
      .Case([&](nn::AndOp) -> Value { return arith::AndIOp::create(b, in[0], in[1]); })
      .Case([&](nn::AsinOp) { return math::AsinOp::create(b, in[0]); })
      .Case([&](nn::AsinhOp) { return math::AsinhOp::create(b, in[0]); })
      .Case([&](nn::AtanOp) { return math::AtanOp::create(b, in[0]); })
      .Case([&](nn::AtanhOp) { return math::AtanhOp::create(b, in[0]); })
      .Case([&](nn::BitcastOp cast) { return emitBitcast(b, in[0], elementOf(cast.getInput()), elementOf(cast)); })
      .Case([&](nn::CastOp cast) { return emitCast(b, in[0], elementOf(cast.getInput()), elementOf(cast)); })
      .Case([&](nn::CeilOp) { return math::CeilOp::create(b, in[0]); })
      .Case([&](nn::CompareOp cmp) { return compare(b, cmp.getPredicate(), in[0], in[1], hasNoSign); })
      .Case([&](nn::CosOp) { return math::CosOp::create(b, in[0]); })
      .Case([&](nn::CoshOp) { return math::CoshOp::create(b, in[0]); })
      .Case([&](nn::DivOp) { return divide(b, in[0], in[1], hasNoSign); })
      .Case([&](nn::ErfOp) { return math::ErfOp::create(b, in[0]); })
      .Case([&](nn::ExpOp) { return math::ExpOp::create(b, in[0]); })
      .Case([&](nn::FloorOp) { return math::FloorOp::create(b, in[0]); })
      .Case([&](nn::GeluOp gelu) { return emitGelu(b, gelu, in[0]); })
      .Case([&](nn::LeakyReluOp leaky) -> Value {
        Value scaled = arith::MulFOp::create(b, in[0], constant(b, in[0].getType(), leaky.getAlpha().convertToDouble()));
        return arith::SelectOp::create(b, isPositive(b, in[0]), in[0], scaled);
      })
      .Case([&](nn::LogOp) { return math::LogOp::create(b, in[0]); })
      .Case([&](nn::MaxOp) { return extremum(b, /*isMax=*/true, in[0], in[1], hasNoSign); })
      .Case([&](nn::MinOp) { return extremum(b, /*isMax=*/false, in[0], in[1], hasNoSign); })
      .Case([&](nn::MulOp) { return arithmetic<arith::MulFOp, arith::MulIOp>(b, in); })
      .Case([&](nn::NegOp) { return emitNeg(b, in[0]); })
      .Case([&](nn::NotOp) -> Value {
        return arith::XOrIOp::create(b, in[0], constant(b, in[0].getType(), in[0].getType().isInteger(1) ? 1 : -1));
      })
      .Case([&](nn::OrOp) -> Value { return arith::OrIOp::create(b, in[0], in[1]); })
      .Case([&](nn::PowOp) { return emitPow(b, in[0], in[1]); })
      .Case([&](nn::RandomOp random) { return emitRandom(b, random, in); })
      .Case([&](nn::ReluOp) -> Value {
        // Written so that a NaN stays a NaN.
        Value zero = constant(b, in[0].getType(), 0);
        return arith::SelectOp::create(b, compare(b, nn::Predicate::Le, in[0], zero), zero, in[0]);
      })
      .Case([&](nn::RemOp) -> Value { return arith::RemFOp::create(b, in[0], in[1]); })
      .Case([&](nn::RoundOp) { return math::RoundEvenOp::create(b, in[0]); })
      .Case([&](nn::SelectOp) -> Value { return arith::SelectOp::create(b, in[0], in[1], in[2]); })
      .Case([&](nn::SigmoidOp) { return emitSigmoid(b, in[0]); })
      .Case([&](nn::SignOp) { return emitSign(b, in[0], hasNoSign); })
      .Case([&](nn::SinOp) { return math::SinOp::create(b, in[0]); })
      .Case([&](nn::SinhOp) { return math::SinhOp::create(b, in[0]); })
      .Case([&](nn::SqrtOp) { return math::SqrtOp::create(b, in[0]); })
      .Case([&](nn::SubOp) { return arithmetic<arith::SubFOp, arith::SubIOp>(b, in); })
      .Case([&](nn::TanOp) { return math::TanOp::create(b, in[0]); })
      .Case([&](nn::TanhOp) { return math::TanhOp::create(b, in[0]); });
}

Value emitCombine(Builder &b, Reduction kind, Type element, Value lhs, Value rhs) {
  if (kind == Reduction::Sum) {
    return isFloat(lhs) ? Value(arith::AddFOp::create(b, lhs, rhs, kReordered)) : Value(arith::AddIOp::create(b, lhs, rhs));
  }
  return extremum(b, kind == Reduction::Max, lhs, rhs, isUnsigned(element), kReordered);
}

Value emitNeutral(Builder &b, Reduction kind, Type element) {
  Type type = computedType(element);
  if (kind == Reduction::Sum) {
    return constant(b, type, 0);
  }
  const bool isMax = kind == Reduction::Max;
  if (isa<FloatType>(type)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return constant(b, type, isMax ? -kInfinity : kInfinity);
  }
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, isMax ? lowestInteger(element) : highestInteger(element)));
}

} // namespace ashlar::lower
