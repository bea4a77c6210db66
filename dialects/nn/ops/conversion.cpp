// SPDX-License-Identifier: Apache-2.0
//
// Conversions of the element type.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/scalar_code.h"
#include "dialects/support/integer_type.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace ashlar::nn {

//===-- nn.cast -----------------------------------------------------------------------------------------------------------------------===//

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

void CastOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  if (isa<FloatType>(getInput().getType().getElementType()) && isa<FloatType>(getType().getElementType())) {
    NnBuilder b(*this, builder);
    out[0] = CastOp::create(b, getInput().getType(), g[0]);
  }
}

namespace {

// Truncates toward zero; what the integer type does not hold becomes the nearest number that it does, and NaN 0, where the processor's
// instruction would give anything.
Value buildInteger(ImplicitLocOpBuilder &b, Value x, Type element) {
  Type to = computedType(element);
  const double end = std::ldexp(1.0, static_cast<int>(to.getIntOrFloatBitWidth()) - (isUnsigned(element) ? 0 : 1));
  Value low = scalar::constant(b, x.getType(), isUnsigned(element) ? 0 : -end), high = scalar::constant(b, x.getType(), end);
  Value isLow = scalar::compare(b, Predicate::Lt, x, low), isHigh = scalar::compare(b, Predicate::Ge, x, high);
  Value fits = arith::AndIOp::create(b, scalar::compare(b, Predicate::Ge, x, low), scalar::compare(b, Predicate::Lt, x, high));
  Value fitting = arith::SelectOp::create(b, fits, x, scalar::constant(b, x.getType(), 0));
  Value integer = isUnsigned(element) ? Value(arith::FPToUIOp::create(b, to, fitting)) : Value(arith::FPToSIOp::create(b, to, fitting));
  Value most = arith::ConstantOp::create(b, b.getIntegerAttr(to, highestInteger(element)));
  Value least = arith::ConstantOp::create(b, b.getIntegerAttr(to, lowestInteger(element)));
  return arith::SelectOp::create(b, isHigh, most, arith::SelectOp::create(b, isLow, least, integer));
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

} // namespace

Value CastOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Value x = in[0];
  Type element = getInput().getType().getElementType(), result = getType().getElementType();
  Type from = x.getType(), to = computedType(result);
  if (result.isInteger(1)) {
    return element == result ? x : scalar::compare(b, Predicate::Ne, x, scalar::constant(b, from, 0));
  }
  if (from == to) {
    return x;
  }
  if (isa<FloatType>(from)) {
    if (isa<FloatType>(to)) {
      return from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth() ? Value(arith::ExtFOp::create(b, to, x))
                                                                       : Value(arith::TruncFOp::create(b, to, x));
    }
    return buildInteger(b, x, result);
  }
  if (isa<FloatType>(to)) {
    return isUnsigned(element) ? Value(arith::UIToFPOp::create(b, to, x)) : Value(arith::SIToFPOp::create(b, to, x));
  }
  if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth()) {
    return arith::TruncIOp::create(b, to, x);
  }
  return isUnsigned(element) ? Value(arith::ExtUIOp::create(b, to, x)) : Value(arith::ExtSIOp::create(b, to, x));
}

Tensor CastOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(getType());
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

//===-- nn.bitcast --------------------------------------------------------------------------------------------------------------------===//

OpFoldResult BitcastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

LogicalResult BitcastOp::verify() {
  Type from = getInput().getType().getElementType(), to = getType().getElementType();
  if (from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth()) { // C1
    return emitOpError("takes the bits of ") << from << " as " << to << ", of another width";
  }
  return success();
}

// The bits are those of an element in memory.
Value BitcastOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Value x = in[0];
  Type element = getInput().getType().getElementType(), result = getType().getElementType();
  Type from = storedType(element), to = storedType(result);
  if (from == to) {
    return x;
  }
  Value stored = x.getType() == from ? x : Value(arith::TruncFOp::create(b, from, x)); // exact, except for the bits of a NaN
  Value taken = arith::BitcastOp::create(b, to, stored);
  return to == computedType(result) ? taken : Value(arith::ExtFOp::create(b, computedType(result), taken));
}

Tensor BitcastOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(getType());
  auto from = dyn_cast<FloatType>(input.getType().getElementType()), to = dyn_cast<FloatType>(result.getType().getElementType());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    uint64_t bits = from ? reference::bitsOfFloat(from, input.getFloat(i)) : wordOf(input.getInt(i));
    if (to) {
      result.setFloat(i, reference::floatOfBits(to, bits & llvm::maskTrailingOnes<uint64_t>(to.getWidth())));
    } else {
      result.setInt(i, static_cast<int64_t>(bits));
    }
  }
  return result;
}

} // namespace ashlar::nn
