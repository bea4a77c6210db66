// SPDX-License-Identifier: Apache-2.0
//
// Exponentials, logarithms, roots, powers, and the functions of angles. In the scalar forms they are math ops: the target decides on the
// approximation. Gradients read the result instead of the operand where that suffices, so that the operand may die early.

#include "dialects/nn/functions.h"
#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/scalar_code.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::nn {

namespace {

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

} // namespace

//===-- nn.exp ------------------------------------------------------------------------------------------------------------------------===//

void ExpOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  out[0] = NnBuilder(*this, builder).mul(g[0], getResult());
}

Value ExpOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::ExpOp::create(b, in[0]);
}

Tensor ExpOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::exp(x); });
}

//===-- nn.log ------------------------------------------------------------------------------------------------------------------------===//

void LogOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  out[0] = NnBuilder(*this, builder).div(g[0], getInput());
}

Value LogOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::LogOp::create(b, in[0]);
}

Tensor LogOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::log(x); });
}

//===-- nn.sqrt -----------------------------------------------------------------------------------------------------------------------===//

// g / (2 y)
void SqrtOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.div(b.times(g[0], 0.5), getResult());
}

Value SqrtOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::SqrtOp::create(b, in[0]);
}

Tensor SqrtOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::sqrt(x); });
}

//===-- nn.erf ------------------------------------------------------------------------------------------------------------------------===//

// g 2/sqrt(pi) e^(-x^2)
void ErfOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value x = b.wide(getInput());
  Value density = ExpOp::create(b, b.neg(b.mul(x, x)));
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), b.times(density, kTwoOverSqrtPi)));
}

Value ErfOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::ErfOp::create(b, in[0]);
}

Tensor ErfOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::erf(x); });
}

//===-- nn.sin ------------------------------------------------------------------------------------------------------------------------===//

void SinOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.mul(g[0], CosOp::create(b, getInput()));
}

Value SinOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::SinOp::create(b, in[0]);
}

Tensor SinOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::sin(x); });
}

//===-- nn.cos ------------------------------------------------------------------------------------------------------------------------===//

void CosOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.neg(b.mul(g[0], SinOp::create(b, getInput())));
}

Value CosOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::CosOp::create(b, in[0]);
}

Tensor CosOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::cos(x); });
}

//===-- nn.tan ------------------------------------------------------------------------------------------------------------------------===//

// g (1 + y^2)
void TanOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value y = b.wide(getResult());
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), b.plus(b.mul(y, y), 1)));
}

Value TanOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::TanOp::create(b, in[0]);
}

Tensor TanOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::tan(x); });
}

//===-- nn.asin -----------------------------------------------------------------------------------------------------------------------===//

namespace {

// g / sqrt(1 - x^2), whose difference has no cancellation as a product.
Value buildArcGradient(NnBuilder &b, Value input, Value g) {
  Value x = b.wide(input);
  Value root = SqrtOp::create(b, b.mul(b.minusFrom(1, x), b.plus(x, 1)));
  return b.as(g, b.div(b.wide(g), root));
}

} // namespace

void AsinOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = buildArcGradient(b, getInput(), g[0]);
}

Value AsinOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::AsinOp::create(b, in[0]);
}

Tensor AsinOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::asin(x); });
}

//===-- nn.acos -----------------------------------------------------------------------------------------------------------------------===//

void AcosOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.neg(buildArcGradient(b, getInput(), g[0]));
}

Value AcosOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::AcosOp::create(b, in[0]);
}

Tensor AcosOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::acos(x); });
}

//===-- nn.atan -----------------------------------------------------------------------------------------------------------------------===//

// g / (1 + x^2)
void AtanOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value x = b.wide(getInput());
  out[0] = b.as(g[0], b.div(b.wide(g[0]), b.plus(b.mul(x, x), 1)));
}

Value AtanOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::AtanOp::create(b, in[0]);
}

Tensor AtanOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::atan(x); });
}

//===-- nn.sinh -----------------------------------------------------------------------------------------------------------------------===//

void SinhOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.mul(g[0], CoshOp::create(b, getInput()));
}

Value SinhOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::SinhOp::create(b, in[0]);
}

Tensor SinhOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::sinh(x); });
}

//===-- nn.cosh -----------------------------------------------------------------------------------------------------------------------===//

void CoshOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.mul(g[0], SinhOp::create(b, getInput()));
}

Value CoshOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::CoshOp::create(b, in[0]);
}

Tensor CoshOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::cosh(x); });
}

//===-- nn.asinh ----------------------------------------------------------------------------------------------------------------------===//

// g / sqrt(1 + x^2), the root as m sqrt(1 + (n / m)^2) with m and n the larger and the smaller of 1 and |x|: no square overflows.
void AsinhOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value size = AbsOp::create(b, b.wide(getInput())), one = b.constant(typeOf(size), 1);
  Value larger = MaxOp::create(b, size, one), ratio = b.div(MinOp::create(b, size, one), larger);
  Value root = b.mul(larger, SqrtOp::create(b, b.plus(b.mul(ratio, ratio), 1)));
  out[0] = b.as(g[0], b.div(b.wide(g[0]), root));
}

Value AsinhOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::AsinhOp::create(b, in[0]);
}

Tensor AsinhOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::asinh(x); });
}

//===-- nn.acosh ----------------------------------------------------------------------------------------------------------------------===//

// g / sqrt(x^2 - 1), as two roots of which none overflows
void AcoshOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value x = b.wide(getInput());
  Value root = b.mul(SqrtOp::create(b, b.plus(x, -1)), SqrtOp::create(b, b.plus(x, 1)));
  out[0] = b.as(g[0], b.div(b.wide(g[0]), root));
}

Value AcoshOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::AcoshOp::create(b, in[0]);
}

Tensor AcoshOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::acosh(x); });
}

//===-- nn.atanh ----------------------------------------------------------------------------------------------------------------------===//

// g / (1 - x^2)
void AtanhOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value x = b.wide(getInput());
  out[0] = b.as(g[0], b.div(b.wide(g[0]), b.mul(b.minusFrom(1, x), b.plus(x, 1))));
}

Value AtanhOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::AtanhOp::create(b, in[0]);
}

Tensor AtanhOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::atanh(x); });
}

//===-- nn.pow ------------------------------------------------------------------------------------------------------------------------===//

// g rhs lhs^(rhs - 1), 0 where rhs = 0; g y log(lhs), 0 where lhs <= 0
void PowOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value lhs = b.wide(getLhs()), rhs = b.wide(getRhs()), gradient = b.wide(g[0]);
  Value slope = b.mul(rhs, PowOp::create(b, lhs, b.plus(rhs, -1)));
  out[0] = b.as(g[0], b.mul(gradient, b.zeroOrSelect(b.compare(Predicate::Eq, rhs, 0), slope)));
  Value exponentSlope = b.mul(b.wide(getResult()), LogOp::create(b, lhs));
  out[1] = b.as(g[0], b.mul(gradient, b.selectOrZero(b.compare(Predicate::Gt, lhs, 0), exponentSlope)));
}

namespace {

// x^(1/2) as pow has it: 0 for -0 and infinite for -infinity.
Value buildRoot(ImplicitLocOpBuilder &b, Value x) {
  Value infinity = scalar::constant(b, x.getType(), std::numeric_limits<double>::infinity());
  Value isLowest = scalar::compare(b, Predicate::Eq, x, arith::NegFOp::create(b, infinity));
  return arith::SelectOp::create(b, isLowest, infinity, math::AbsFOp::create(b, math::SqrtOp::create(b, x)));
}

} // namespace

// Small constant exponents become products and roots; anything else calls pow.
Value PowOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Value x = in[0], exponent = in[1];
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
      Value root = buildRoot(b, x);
      return value > 0 ? root : scalar::divide(b, scalar::constant(b, x.getType(), 1), root);
    }
  }
  return math::PowFOp::create(b, x, exponent);
}

Tensor PowOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], in[1], [](double x, double y) { return std::pow(x, y); });
}

} // namespace ashlar::nn
