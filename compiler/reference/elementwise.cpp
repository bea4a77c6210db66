// SPDX-License-Identifier: Apache-2.0
//
// Element-wise nn ops: each element of the result from the same element of the operands.

#include "compiler/reference/semantics.h"

#include "dialects/nn/functions.h"
#include "dialects/support/integer_type.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace ashlar::reference {

namespace {

// One float operand, by a function of doubles.
template <double (*function)(double)> Tensor floatUnary(Operation *op, ArrayRef<Tensor> operands) {
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setFloat(i, function(operands[0].getFloat(i)));
  }
  return result;
}

// One operand, by a function of doubles or one of integers, with another for ui64 where the sign matters.
template <double (*onFloats)(double), int64_t (*onInts)(int64_t), uint64_t (*onWords)(uint64_t) = nullptr>
Tensor unary(Operation *op, ArrayRef<Tensor> operands) {
  if (operands[0].isFloat()) {
    return floatUnary<onFloats>(op, operands);
  }
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    int64_t x = operands[0].getInt(i);
    if constexpr (onWords != nullptr) {
      result.setInt(i, result.isWord() ? static_cast<int64_t>(onWords(static_cast<uint64_t>(x))) : onInts(x));
    } else {
      result.setInt(i, onInts(x));
    }
  }
  return result;
}

// Two operands, by a function of doubles or one of integers, with another for ui64 where the sign matters.
template <double (*onFloats)(double, double), int64_t (*onInts)(int64_t, int64_t), uint64_t (*onWords)(uint64_t, uint64_t) = nullptr>
Tensor binary(Operation *op, ArrayRef<Tensor> operands) {
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    if (result.isFloat()) {
      result.setFloat(i, onFloats(operands[0].getFloat(i), operands[1].getFloat(i)));
      continue;
    }
    int64_t x = operands[0].getInt(i), y = operands[1].getInt(i), combined = 0;
    if constexpr (onWords != nullptr) {
      combined = result.isWord() ? static_cast<int64_t>(onWords(x, y)) : onInts(x, y);
    } else {
      combined = onInts(x, y);
    }
    result.setInt(i, combined);
  }
  return result;
}

double negOf(double x) {
  return -x;
}
double absOf(double x) {
  return std::fabs(x);
}
uint64_t wordOf(int64_t x) { // sums, differences and products wrap around
  return static_cast<uint64_t>(x);
}
int64_t negOfInt(int64_t x) {
  return static_cast<int64_t>(-wordOf(x));
}
int64_t absOfInt(int64_t x) {
  return x < 0 ? negOfInt(x) : x;
}
uint64_t absOfWord(uint64_t x) {
  return x;
}
uint64_t signOfWord(uint64_t x) {
  return x != 0;
}
template <typename T> T signOf(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x;
} // a NaN stays one
double floorOf(double x) {
  return std::floor(x);
}
double ceilOf(double x) {
  return std::ceil(x);
}
double roundOf(double x) {
  return std::nearbyint(x); // to even where two are as near
}
double sinOf(double x) {
  return std::sin(x);
}
double cosOf(double x) {
  return std::cos(x);
}
double tanOf(double x) {
  return std::tan(x);
}
double asinOf(double x) {
  return std::asin(x);
}
double acosOf(double x) {
  return std::acos(x);
}
double atanOf(double x) {
  return std::atan(x);
}
double sinhOf(double x) {
  return std::sinh(x);
}
double coshOf(double x) {
  return std::cosh(x);
}
double asinhOf(double x) {
  return std::asinh(x);
}
double acoshOf(double x) {
  return std::acosh(x);
}
double atanhOf(double x) {
  return std::atanh(x);
}
double expOf(double x) {
  return std::exp(x);
}
double logOf(double x) {
  return std::log(x);
}
double sqrtOf(double x) {
  return std::sqrt(x);
}
double erfOf(double x) {
  return std::erf(x);
}
double tanhOf(double x) {
  return std::tanh(x);
}
double sigmoidOf(double x) {
  double exponential = std::exp(-std::fabs(x));
  return (x < 0 ? exponential : 1) / (1 + exponential);
}
double reluOf(double x) {
  return x <= 0 ? 0 : x;
} // a NaN stays one

double addOf(double x, double y) {
  return x + y;
}
int64_t addOfInts(int64_t x, int64_t y) {
  return static_cast<int64_t>(wordOf(x) + wordOf(y));
}
double subOf(double x, double y) {
  return x - y;
}
int64_t subOfInts(int64_t x, int64_t y) {
  return static_cast<int64_t>(wordOf(x) - wordOf(y));
}
double mulOf(double x, double y) {
  return x * y;
}
int64_t mulOfInts(int64_t x, int64_t y) {
  return static_cast<int64_t>(wordOf(x) * wordOf(y));
}
double divOf(double x, double y) {
  return x / y;
}
int64_t divOfInts(int64_t x, int64_t y) {
  return y == 0 ? 0 : y == -1 ? negOfInt(x) : x / y;
} // 0 where C++ leaves it open
uint64_t divOfWords(uint64_t x, uint64_t y) {
  return y == 0 ? 0 : x / y;
}
double powOf(double x, double y) {
  return std::pow(x, y);
}
double remOf(double x, double y) {
  return std::fmod(x, y);
}
int64_t andOf(int64_t x, int64_t y) {
  return x & y;
}
int64_t orOf(int64_t x, int64_t y) {
  return x | y;
}

// The larger (the smaller); a NaN wins, and -0 is less than 0.
double maxOf(double x, double y) {
  return std::isnan(x) || x > y || (x == y && !std::signbit(x)) ? x : y;
}
double minOf(double x, double y) {
  return std::isnan(x) || x < y || (x == y && std::signbit(x)) ? x : y;
}
template <typename T> T maxOfInts(T x, T y) {
  return std::max(x, y);
}
template <typename T> T minOfInts(T x, T y) {
  return std::min(x, y);
}

// For ops without an integer form: ODS lets no integer reach them.
int64_t noInts(int64_t, int64_t) {
  llvm_unreachable("op of floats on integers");
}
double noFloats(double, double) {
  llvm_unreachable("op of bools on floats");
}

Tensor leakyRelu(Operation *op, ArrayRef<Tensor> operands) {
  double alpha = cast<nn::LeakyReluOp>(op).getAlpha().convertToDouble();
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    double x = operands[0].getFloat(i);
    result.setFloat(i, x > 0 ? x : alpha * x);
  }
  return result;
}

Tensor gelu(Operation *op, ArrayRef<Tensor> operands) {
  bool approximate = cast<nn::GeluOp>(op).getTanhApproximation();
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    double x = operands[0].getFloat(i);
    double twicePhi = approximate ? 1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)) : 1 + std::erf(x / M_SQRT2);
    result.setFloat(i, 0.5 * x * twicePhi);
  }
  return result;
}

Tensor logicalNot(Operation *op, ArrayRef<Tensor> operands) {
  Tensor result(resultType(op));
  const bool isBool = result.getType().getElementType().isInteger(1);
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setInt(i, isBool ? !operands[0].getInt(i) : ~operands[0].getInt(i));
  }
  return result;
}

// Truncates toward zero; what the integer type does not hold becomes the nearest number that it does, and NaN 0.
int64_t integerOf(double x, Type element) {
  const bool hasNoSign = isUnsigned(element);
  const double end = std::ldexp(1, static_cast<int>(element.getIntOrFloatBitWidth()) - (hasNoSign ? 0 : 1)); // the first above all
  if (std::isnan(x)) {
    return 0;
  }
  if (x >= end || x < (hasNoSign ? 0 : -end)) {
    return integerValue(element, x < 0 ? lowestInteger(element) : highestInteger(element));
  }
  return hasNoSign ? static_cast<int64_t>(static_cast<uint64_t>(x)) : static_cast<int64_t>(x);
}

// An integer as an f32, which f16 and bf16 are rounded from: once where an f64 between would round twice.
float narrowNumberOf(const Tensor &input, int64_t i) {
  return input.isWord() ? static_cast<float>(wordOf(input.getInt(i))) : static_cast<float>(input.getInt(i));
}

Tensor castElements(Operation *op, ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  Type element = result.getType().getElementType();
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    if (result.isFloat()) {
      result.setFloat(i, !input.isFloat() && !element.isF64() ? narrowNumberOf(input, i) : input.getNumber(i));
    } else if (element.isInteger(1)) {
      result.setInt(i, input.isFloat() ? input.getFloat(i) != 0 : input.getInt(i) != 0);
    } else {
      result.setInt(i, input.isFloat() ? integerOf(input.getFloat(i), element) : input.getInt(i));
    }
  }
  return result;
}

Tensor bitcastElements(Operation *op, ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  auto from = dyn_cast<FloatType>(input.getType().getElementType()), to = dyn_cast<FloatType>(result.getType().getElementType());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    uint64_t bits = from ? bitsOfFloat(from, input.getFloat(i)) : wordOf(input.getInt(i));
    if (to) {
      result.setFloat(i, floatOfBits(to, bits & llvm::maskTrailingOnes<uint64_t>(to.getWidth())));
    } else {
      result.setInt(i, static_cast<int64_t>(bits));
    }
  }
  return result;
}

template <typename T> bool holds(nn::Predicate predicate, T x, T y) {
  switch (predicate) {
  case nn::Predicate::Eq:
    return x == y;
  case nn::Predicate::Ne:
    return x != y;
  case nn::Predicate::Lt:
    return x < y;
  case nn::Predicate::Le:
    return x <= y;
  case nn::Predicate::Gt:
    return x > y;
  case nn::Predicate::Ge:
    return x >= y;
  }
  llvm_unreachable("unknown predicate");
}

Tensor compare(Operation *op, ArrayRef<Tensor> operands) {
  nn::Predicate predicate = cast<nn::CompareOp>(op).getPredicate();
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    const Tensor &x = operands[0], &y = operands[1];
    result.setInt(i, x.isFloat()  ? holds(predicate, x.getFloat(i), y.getFloat(i))
                     : x.isWord() ? holds(predicate, wordOf(x.getInt(i)), wordOf(y.getInt(i)))
                                  : holds(predicate, x.getInt(i), y.getInt(i)));
  }
  return result;
}

Tensor select(Operation *op, ArrayRef<Tensor> operands) {
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.copyElement(i, operands[0].getInt(i) ? operands[1] : operands[2], i);
  }
  return result;
}

} // namespace

void addElementwiseSemantics(SemanticsTable &table) {
  table.add<nn::GradientOp>([](Operation *, ArrayRef<Tensor> operands) { return operands[0]; });
  table.add<nn::NegOp>(unary<negOf, negOfInt>);
  table.add<nn::AbsOp>(unary<absOf, absOfInt, absOfWord>);
  table.add<nn::SignOp>(unary<signOf<double>, signOf<int64_t>, signOfWord>);
  table.add<nn::FloorOp>(floatUnary<floorOf>);
  table.add<nn::CeilOp>(floatUnary<ceilOf>);
  table.add<nn::RoundOp>(floatUnary<roundOf>);
  table.add<nn::SinOp>(floatUnary<sinOf>);
  table.add<nn::CosOp>(floatUnary<cosOf>);
  table.add<nn::TanOp>(floatUnary<tanOf>);
  table.add<nn::AsinOp>(floatUnary<asinOf>);
  table.add<nn::AcosOp>(floatUnary<acosOf>);
  table.add<nn::AtanOp>(floatUnary<atanOf>);
  table.add<nn::SinhOp>(floatUnary<sinhOf>);
  table.add<nn::CoshOp>(floatUnary<coshOf>);
  table.add<nn::AsinhOp>(floatUnary<asinhOf>);
  table.add<nn::AcoshOp>(floatUnary<acoshOf>);
  table.add<nn::AtanhOp>(floatUnary<atanhOf>);
  table.add<nn::ExpOp>(floatUnary<expOf>);
  table.add<nn::LogOp>(floatUnary<logOf>);
  table.add<nn::SqrtOp>(floatUnary<sqrtOf>);
  table.add<nn::ErfOp>(floatUnary<erfOf>);
  table.add<nn::TanhOp>(floatUnary<tanhOf>);
  table.add<nn::SigmoidOp>(floatUnary<sigmoidOf>);
  table.add<nn::ReluOp>(floatUnary<reluOf>);
  table.add<nn::LeakyReluOp>(leakyRelu);
  table.add<nn::GeluOp>(gelu);
  table.add<nn::NotOp>(logicalNot);
  table.add<nn::CastOp>(castElements);
  table.add<nn::BitcastOp>(bitcastElements);
  table.add<nn::AddOp>(binary<addOf, addOfInts>);
  table.add<nn::SubOp>(binary<subOf, subOfInts>);
  table.add<nn::MulOp>(binary<mulOf, mulOfInts>);
  table.add<nn::DivOp>(binary<divOf, divOfInts, divOfWords>);
  table.add<nn::PowOp>(binary<powOf, noInts>);
  table.add<nn::RemOp>(binary<remOf, noInts>);
  table.add<nn::MaxOp>(binary<maxOf, maxOfInts<int64_t>, maxOfInts<uint64_t>>);
  table.add<nn::MinOp>(binary<minOf, minOfInts<int64_t>, minOfInts<uint64_t>>);
  table.add<nn::AndOp>(binary<noFloats, andOf>);
  table.add<nn::OrOp>(binary<noFloats, orOf>);
  table.add<nn::CompareOp>(compare);
  table.add<nn::SelectOp>(select);
}

} // namespace ashlar::reference
