// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops. Operands of different shapes are broadcast explicitly.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"
#include "compiler/frontend/tensor_data.h"

#include "dialects/nn/functions.h"
#include "dialects/support/element_type.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

template <typename Op> void importUnary(Node &node) {
  node.setResult(0, node.create<Op>(node.input(0)).getResult());
}

std::pair<Value, Value> broadcastOperands(Node &node) {
  return broadcastPair(node, node.input(0), node.input(1));
}

// Integers by zero have no result; at run time it is 0.
void checkDivisor(const Node &node) {
  DenseElementsAttr divisor = node.constantInput(1);
  if (divisor && isa<IntegerType>(divisor.getElementType()) &&
      llvm::any_of(divisor.getValues<APInt>(), [](const APInt &v) { return v.isZero(); })) {
    node.fail("divides by zero");
  }
}

void importDiv(Node &node) {
  checkDivisor(node);
  auto [lhs, rhs] = broadcastOperands(node);
  node.setResult(0, node.create<nn::DivOp>(lhs, rhs).getResult());
}

// The rest has the sign of the divisor, as in Python; with `fmod` that of the dividend, as in C.
void importMod(Node &node) {
  const bool truncates = node.getInt("fmod", 0) != 0, isFloat = isa<FloatType>(node.inputType(0).getElementType());
  if (isFloat && !truncates && node.getOpset() < 28) {
    node.fail("of floats has attribute \"fmod\" 0, which ONNX has since opset 28; set it to 1");
  }
  checkDivisor(node);
  auto [lhs, rhs] = broadcastOperands(node);
  Value rest = isFloat ? node.create<nn::RemOp>(lhs, rhs).getResult()
                       : node.create<nn::SubOp>(lhs, node.create<nn::MulOp>(node.create<nn::DivOp>(lhs, rhs), rhs)).getResult();
  if (!truncates) {
    Value isBelow = compare(node, nn::Predicate::Lt, rhs, 0);
    Value differ = node.create<nn::CompareOp>(typeOf(isBelow), nn::Predicate::Ne, compare(node, nn::Predicate::Lt, rest, 0), isBelow);
    Value isRest = compare(node, nn::Predicate::Ne, rest, 0);
    Value zero = isFloat ? select(node, isBelow, splatConstant(node, typeOf(rest), -0.0), splatConstant(node, typeOf(rest), 0)) : rest;
    rest = select(node, isRest, select(node, differ, node.create<nn::AddOp>(rest, rhs), rest), zero);
  }
  node.setResult(0, rest);
}

// Fails unless the op's inputs are integers. The table has taken bools out.
void checkIntegers(const Node &node) {
  Type element = node.inputType(0).getElementType();
  if (isa<FloatType>(element)) {
    node.fail("input 0 is a tensor of " + elementName(element) + ", which the op does not take; its inputs are integers");
  }
}

// x times 2^y, or x divided by it and rounded down. The powers are rows of a table; one for which it has none is 0, and nn.div makes 0 of
// a quotient by 0. So all bits are shifted out.
void importBitShift(Node &node) {
  const std::string direction = node.getString("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    node.fail("attribute \"direction\" is \"" + direction + "\"; one of LEFT, RIGHT");
  }
  checkIntegers(node);
  Type element = node.inputType(0).getElementType();
  if (!element.isUnsignedInteger() && node.getOpset() < 28) {
    node.fail("input 0 is a tensor of " + elementName(element) +
              ", which the op takes since opset 28; before, its inputs are without a sign");
  }
  auto [x, y] = broadcastOperands(node);
  SmallVector<APInt> powers;
  for (unsigned bit = 0, bits = element.getIntOrFloatBitWidth(); bit < bits; ++bit) {
    powers.push_back(APInt::getOneBitSet(bits, bit));
  }
  auto table = DenseElementsAttr::get(RankedTensorType::get({static_cast<int64_t>(powers.size())}, element), powers);
  Value power = node.create<nn::GatherOp>(node.create<nn::ConstantOp>(table), convertTo(node, y, node.builder().getI64Type()));
  if (direction == "LEFT") {
    return node.setResult(0, node.create<nn::MulOp>(x, power).getResult());
  }
  Value quotient = node.create<nn::DivOp>(x, power);
  if (!element.isUnsignedInteger()) { // of a negative number that of its bits inverted, inverted
    Value inverted = node.create<nn::NotOp>(node.create<nn::DivOp>(node.create<nn::NotOp>(x), power));
    quotient = select(node, compare(node, nn::Predicate::Lt, x, 0), inverted, quotient);
  }
  node.setResult(0, quotient);
}

template <typename Op> void importBinary(Node &node) {
  auto [lhs, rhs] = broadcastOperands(node);
  node.setResult(0, node.create<Op>(lhs, rhs).getResult());
}

// Any number of inputs, combined from the left.
template <typename Op> void importVariadic(Node &node) {
  Value result = node.input(0);
  if (node.numInputs() == 1) {
    return node.aliasResult(0, 0);
  }
  for (size_t i = 1; i < node.numInputs(); ++i) {
    auto [lhs, rhs] = broadcastPair(node, result, node.input(i));
    result = node.create<Op>(lhs, rhs);
  }
  node.setResult(0, result);
}

void importMean(Node &node) {
  Value sum = node.input(0);
  for (size_t i = 1; i < node.numInputs(); ++i) {
    auto [lhs, rhs] = broadcastPair(node, sum, node.input(i));
    sum = node.create<nn::AddOp>(lhs, rhs);
  }
  node.setResult(0, node.create<nn::MulOp>(sum, splatConstant(node, typeOf(sum), 1.0 / node.numInputs())).getResult());
}

template <nn::Predicate predicate> void importCompare(Node &node) {
  auto [lhs, rhs] = broadcastOperands(node);
  auto type = RankedTensorType::get(shapeOf(lhs), node.builder().getI1Type());
  node.setResult(0, node.create<nn::CompareOp>(type, predicate, lhs, rhs).getResult());
}

void importXor(Node &node) {
  auto [lhs, rhs] = broadcastOperands(node);
  node.setResult(0, compare(node, nn::Predicate::Ne, lhs, rhs));
}

template <void (*import)(Node &)> void importBits(Node &node) {
  checkIntegers(node);
  import(node);
}

// The bits that any has, without those that both have.
void importBitwiseXor(Node &node) {
  auto [lhs, rhs] = broadcastOperands(node);
  node.setResult(0, node.create<nn::SubOp>(node.create<nn::OrOp>(lhs, rhs), node.create<nn::AndOp>(lhs, rhs)).getResult());
}

// Only a NaN differs from itself.
void importIsNaN(Node &node) {
  Value input = node.input(0);
  auto type = RankedTensorType::get(shapeOf(input), node.builder().getI1Type());
  node.setResult(0, node.create<nn::CompareOp>(type, nn::Predicate::Ne, input, input).getResult());
}

void importIsInf(Node &node) {
  const bool positive = node.getInt("detect_positive", 1) != 0, negative = node.getInt("detect_negative", 1) != 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value x = node.input(0);
  if (positive && negative) {
    x = node.create<nn::AbsOp>(x);
  } else if (!positive && !negative) {
    return node.setResult(0, DenseElementsAttr::get(typeOf(x).clone(node.builder().getI1Type()), false));
  }
  node.setResult(0, compare(node, nn::Predicate::Eq, x, positive ? kInfinity : -kInfinity));
}

void importReciprocal(Node &node) {
  Value input = node.input(0);
  node.setResult(0, node.create<nn::DivOp>(splatConstant(node, typeOf(input), 1), input).getResult());
}

void importGelu(Node &node) {
  std::string approximate = node.getString("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    node.fail("attribute \"approximate\" is \"" + approximate + "\"; one of none, tanh");
  }
  Value input = node.input(0);
  node.setResult(0, node.create<nn::GeluOp>(input.getType(), input, approximate == "tanh").getResult());
}

void importLeakyRelu(Node &node) {
  Value input = node.input(0);
  auto alpha = node.builder().getF64FloatAttr(node.getFloat("alpha", 0.01));
  node.setResult(0, node.create<nn::LeakyReluOp>(input.getType(), input, alpha).getResult());
}

// Returns base^(-exponent) of integers where the exponent is negative: 1 and -1 have whole inverses, all other numbers the quotient 0.
Value inversePower(Node &node, Value base, Value isOdd) {
  RankedTensorType type = typeOf(base);
  Value one = splatConstant(node, type, 1), minusOne = splatConstant(node, type, -1), zero = splatConstant(node, type, 0);
  Value ofMinusOne = select(node, isOdd, minusOne, one);
  return select(node, compare(node, nn::Predicate::Eq, base, 1), one,
                select(node, compare(node, nn::Predicate::Eq, base, -1), ofMinusOne, zero));
}

// Returns base^exponent of integers for an exponent that is known: squares and products, which wrap around.
Value knownIntegerPower(Node &node, Value base, double exponent) {
  RankedTensorType type = typeOf(base);
  if (exponent < 0) {
    auto isOdd = DenseElementsAttr::get(type.clone(node.builder().getI1Type()), std::fmod(exponent, 2) != 0);
    return inversePower(node, base, node.create<nn::ConstantOp>(isOdd));
  }
  Value result;
  for (auto rest = static_cast<uint64_t>(exponent); rest > 0; rest /= 2) {
    if (rest % 2 == 1) {
      result = result ? node.create<nn::MulOp>(result, base).getResult() : base;
    }
    base = rest > 1 ? node.create<nn::MulOp>(base, base).getResult() : base;
  }
  return result ? result : splatConstant(node, type, 1);
}

// The same for integers that are computed: a product for each bit of the exponent.
Value integerPower(Node &node, Value base, Value exponent) {
  RankedTensorType type = typeOf(base), counts = typeOf(exponent);
  const bool hasSign = !counts.getElementType().isUnsignedInteger();
  Value rest = exponent, result = splatConstant(node, type, 1), two = splatConstant(node, counts, 2), factor = base, firstIsOdd;
  for (unsigned bit = 0, bits = counts.getElementTypeBitWidth() - (hasSign ? 1 : 0); bit < bits; ++bit) {
    Value half = node.create<nn::DivOp>(rest, two);
    Value isOdd = compare(node, nn::Predicate::Ne, node.create<nn::MulOp>(half, two), rest);
    firstIsOdd = firstIsOdd ? firstIsOdd : isOdd;
    result = select(node, isOdd, node.create<nn::MulOp>(result, factor), result);
    factor = node.create<nn::MulOp>(factor, factor);
    rest = half;
  }
  return hasSign ? select(node, compare(node, nn::Predicate::Lt, exponent, 0), inversePower(node, base, firstIsOdd), result) : result;
}

// A power of integers by whole exponents is exact, and wraps around as their products do. One by other exponents is computed in f64 and
// rounded towards zero.
void importIntegerPow(Node &node) {
  RankedTensorType type = node.inputType(0), exponents = node.inputType(1);
  if (!type.getElementType().isSignlessInteger(32) && !type.getElementType().isSignlessInteger(64)) {
    node.fail("input 0 is a tensor of " + elementName(type.getElementType()) +
              ", which the op does not take; its inputs are floats, i32 and i64");
  }
  if (node.getOpset() < 12) {
    node.fail("input 0 is a tensor of " + elementName(type.getElementType()) +
              ", which the op takes since opset 12; before, its inputs are floats");
  }
  if (exponents.getElementType().isInteger(1)) {
    node.fail("input 1 is a tensor of bool, which the op does not take; exponents are numbers");
  }
  constexpr double kMostExponent = 0x1p53; // up to here f64 holds every whole number
  Shape shape = broadcastShapes(node, type.getShape(), exponents.getShape());
  Value base = broadcastTo(node, node.input(0), shape);
  std::optional<double> power = splatInput(node, 1);
  if (power && *power == std::floor(*power) && std::abs(*power) < kMostExponent) {
    return node.setResult(0, knownIntegerPower(node, base, *power));
  }
  Value exponent = broadcastTo(node, node.input(1), shape);
  if (isa<IntegerType>(exponents.getElementType())) {
    return node.setResult(0, integerPower(node, base, exponent));
  }
  Type wide = node.builder().getF64Type();
  node.setResult(
      0, convertTo(node, node.create<nn::PowOp>(convertTo(node, base, wide), convertTo(node, exponent, wide)), type.getElementType()));
}

// Powers 1, 2, 3 and -1 become products and quotients: exact gradients everywhere, and far cheaper. Roots stay powers, which differ from
// nn.sqrt at -0 and -infinity; kernels compute them as roots.
void importPow(Node &node) {
  if (isa<IntegerType>(node.inputType(0).getElementType())) {
    return importIntegerPow(node);
  }
  Value base = node.input(0);
  RankedTensorType type = typeOf(base);
  Shape shape = broadcastShapes(node, type.getShape(), node.inputType(1).getShape());
  base = broadcastTo(node, base, shape);
  type = typeOf(base);
  std::optional<double> power = splatInput(node, 1);
  Value result;
  if (power == 1) {
    return shape == node.inputType(0).getShape() ? node.aliasResult(0, 0) : node.setResult(0, base);
  } else if (power == 2) {
    result = node.create<nn::MulOp>(base, base);
  } else if (power == 3) {
    result = node.create<nn::MulOp>(node.create<nn::MulOp>(base, base), base);
  } else if (power == -1) {
    result = node.create<nn::DivOp>(splatConstant(node, type, 1), base);
  } else {
    Value exponent = convertTo(node, node.input(1), type.getElementType());
    result = node.create<nn::PowOp>(base, broadcastTo(node, exponent, shape));
  }
  node.setResult(0, result);
}

void castTo(Node &node, Type element) {
  if (node.getInt("saturate", 1) != 1) { // since opset 19, for float8 only
    node.fail("attribute \"saturate\" 0 is not supported");
  }
  node.getString("round_mode", "up"); // since opset 25, for float8e8m0 only, which nn does not have
  if (node.inputType(0).getElementType() == element) {
    return node.aliasResult(0, 0);
  }
  node.setResult(0, convertTo(node, node.input(0), element));
}

void importCast(Node &node) {
  castTo(node, convertElementType(node.getInt("to", 0), node.builder().getContext(), "node \"" + node.getPath() + "\""));
}

// A bool is a byte here, and a byte other than 0 is true, as NumPy reads it.
void importBitCast(Node &node) {
  Type from = node.inputType(0).getElementType();
  Type to = convertElementType(node.getInt("to", 0), node.builder().getContext(), "node \"" + node.getPath() + "\"");
  if (from == to) {
    return node.aliasResult(0, 0);
  }
  if (elementBytes(from) != elementBytes(to)) {
    node.fail("takes the bits of " + elementName(from) + " as " + elementName(to) + ", of another width; use Cast");
  }
  Value input = node.input(0);
  const bool isBool = from.isInteger(1) || to.isInteger(1);
  node.setResult(0, isBool ? convertTo(node, input, to) : node.create<nn::BitcastOp>(typeOf(input).clone(to), input).getResult());
}

void importCastLike(Node &node) {
  castTo(node, node.inputType(1).getElementType());
}

void importWhere(Node &node) {
  Value condition = node.input(0), onTrue = node.input(1), onFalse = node.input(2);
  if (typeOf(onTrue).getElementType() != typeOf(onFalse).getElementType()) {
    node.fail("inputs X and Y have different element types");
  }
  Shape shape = broadcastShapes(node, shapeOf(condition), broadcastShapes(node, shapeOf(onTrue), shapeOf(onFalse)));
  onTrue = broadcastTo(node, onTrue, shape);
  node.setResult(0,
                 node.create<nn::SelectOp>(onTrue.getType(), broadcastTo(node, condition, shape), onTrue, broadcastTo(node, onFalse, shape))
                     .getResult());
}

void importIdentity(Node &node) {
  node.aliasResult(0, 0);
}

constexpr RegistryRow kElementwiseRows[] = {
    {"Abs", importUnary<nn::AbsOp>, Accepts::Numbers},
    {"Acos", importUnary<nn::AcosOp>, Accepts::Floats},
    {"Acosh", importUnary<nn::AcoshOp>, Accepts::Floats},
    {"Add", importBinary<nn::AddOp>, Accepts::Numbers},
    {"And", importBinary<nn::AndOp>, Accepts::Bools},
    {"Asin", importUnary<nn::AsinOp>, Accepts::Floats},
    {"Asinh", importUnary<nn::AsinhOp>, Accepts::Floats},
    {"Atan", importUnary<nn::AtanOp>, Accepts::Floats},
    {"Atanh", importUnary<nn::AtanhOp>, Accepts::Floats},
    {"BitCast", importBitCast},
    {"BitShift", importBitShift, Accepts::Numbers},
    {"BitwiseAnd", importBits<importBinary<nn::AndOp>>, Accepts::Numbers},
    {"BitwiseNot", importBits<importUnary<nn::NotOp>>, Accepts::Numbers},
    {"BitwiseOr", importBits<importBinary<nn::OrOp>>, Accepts::Numbers},
    {"BitwiseXor", importBits<importBitwiseXor>, Accepts::Numbers},
    {"Cast", importCast},
    {"CastLike", importCastLike},
    flat({"Ceil", importUnary<nn::CeilOp>, Accepts::Floats}),
    {"Cos", importUnary<nn::CosOp>, Accepts::Floats},
    {"Cosh", importUnary<nn::CoshOp>, Accepts::Floats},
    {"Div", importDiv, Accepts::Numbers},
    flat({"Equal", importCompare<nn::Predicate::Eq>}),
    {"Erf", importUnary<nn::ErfOp>, Accepts::Floats},
    {"Exp", importUnary<nn::ExpOp>, Accepts::Floats},
    flat({"Floor", importUnary<nn::FloorOp>, Accepts::Floats}),
    {"Gelu", importGelu, Accepts::Floats},
    flat({"Greater", importCompare<nn::Predicate::Gt>, Accepts::Numbers}),
    flat({"GreaterOrEqual", importCompare<nn::Predicate::Ge>, Accepts::Numbers}),
    {"Identity", importIdentity},
    flat({"IsInf", importIsInf, Accepts::Floats}),
    flat({"IsNaN", importIsNaN, Accepts::Floats}),
    {"LeakyRelu", importLeakyRelu, Accepts::Floats},
    flat({"Less", importCompare<nn::Predicate::Lt>, Accepts::Numbers}),
    flat({"LessOrEqual", importCompare<nn::Predicate::Le>, Accepts::Numbers}),
    {"Log", importUnary<nn::LogOp>, Accepts::Floats},
    {"Max", importVariadic<nn::MaxOp>, Accepts::Numbers},
    {"Mean", importMean, Accepts::Floats},
    {"Min", importVariadic<nn::MinOp>, Accepts::Numbers},
    {"Mod", importMod, Accepts::Numbers},
    {"Mul", importBinary<nn::MulOp>, Accepts::Numbers},
    {"Neg", importUnary<nn::NegOp>, Accepts::Signed},
    {"Not", importUnary<nn::NotOp>, Accepts::Bools},
    {"Or", importBinary<nn::OrOp>, Accepts::Bools},
    {"Pow", importPow, Accepts::Numbers},
    {"Reciprocal", importReciprocal, Accepts::Floats},
    {"Relu", importUnary<nn::ReluOp>, Accepts::Floats},
    flat({"Round", importUnary<nn::RoundOp>, Accepts::Floats}),
    {"Sigmoid", importUnary<nn::SigmoidOp>, Accepts::Floats},
    flat({"Sign", importUnary<nn::SignOp>, Accepts::Numbers}),
    {"Sin", importUnary<nn::SinOp>, Accepts::Floats},
    {"Sinh", importUnary<nn::SinhOp>, Accepts::Floats},
    {"Sqrt", importUnary<nn::SqrtOp>, Accepts::Floats},
    {"Sub", importBinary<nn::SubOp>, Accepts::Numbers},
    {"Sum", importVariadic<nn::AddOp>, Accepts::Numbers},
    {"Tan", importUnary<nn::TanOp>, Accepts::Floats},
    {"Tanh", importUnary<nn::TanhOp>, Accepts::Floats},
    {"Where", importWhere, Accepts::Bools},
    {"Xor", importXor, Accepts::Bools},
};

} // namespace

ArrayRef<RegistryRow> elementwiseRows() {
  return kElementwiseRows;
}

} // namespace ashlar::frontend
