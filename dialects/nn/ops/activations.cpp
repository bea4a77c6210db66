// SPDX-License-Identifier: Apache-2.0
//
// Activations of neural networks.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/scalar_code.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace ashlar::nn {

namespace {

constexpr double kOneOverSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;
constexpr double kGeluFlat = 40; // beyond, gelu is 0 or x also in f64, and the powers in its slope would overflow

} // namespace

//===-- nn.relu -----------------------------------------------------------------------------------------------------------------------===//

void ReluOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.selectOrZero(b.compare(Predicate::Gt, getResult(), 0), g[0]);
}

// Written so that a NaN stays a NaN.
Value ReluOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Value zero = scalar::constant(b, in[0].getType(), 0);
  return arith::SelectOp::create(b, scalar::compare(b, Predicate::Le, in[0], zero), zero, in[0]);
}

Tensor ReluOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return x <= 0 ? 0 : x; });
}

//===-- nn.leaky_relu -----------------------------------------------------------------------------------------------------------------===//

void LeakyReluOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  double alpha = getAlpha().convertToDouble();
  Value sameSign = alpha >= 0 ? getResult() : Value(getInput()); // y > 0 exactly where x > 0, unless alpha turns the sign
  out[0] = b.select(b.compare(Predicate::Gt, sameSign, 0), g[0], b.times(g[0], alpha));
}

Value LeakyReluOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Value scaled = arith::MulFOp::create(b, in[0], scalar::constant(b, in[0].getType(), getAlpha().convertToDouble()));
  return arith::SelectOp::create(b, scalar::isPositive(b, in[0]), in[0], scaled);
}

Tensor LeakyReluOp::evaluate(ArrayRef<Tensor> in) {
  const double alpha = getAlpha().convertToDouble();
  return mapFloats(*this, in[0], [alpha](double x) { return x > 0 ? x : alpha * x; });
}

//===-- nn.gelu -----------------------------------------------------------------------------------------------------------------------===//

// exact: g (Phi(x) + x phi(x)); approximation with u = c (x + a x^3), t = tanh(u): g (0.5 (1 + t) + 0.5 x (1 - t^2) c (1 + 3 a x^2))
void GeluOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value wide = b.wide(getInput()), slope = b.wide(g[0]);
  Value x = MaxOp::create(b, MinOp::create(b, wide, b.constant(typeOf(wide), kGeluFlat)), b.constant(typeOf(wide), -kGeluFlat));
  Value square = b.mul(x, x);
  if (!getTanhApproximation()) {
    Value phi = b.times(ExpOp::create(b, b.times(square, -0.5)), kOneOverSqrtTwoPi);
    Value cdf = b.times(b.plus(ErfOp::create(b, b.times(x, kSqrtHalf)), 1), 0.5);
    out[0] = b.as(g[0], b.mul(slope, b.add(cdf, b.mul(x, phi))));
    return;
  }
  Value u = b.times(b.mul(x, b.plus(b.times(square, kGeluCubic), 1)), kSqrtTwoOverPi);
  Value t = TanhOp::create(b, u);
  Value uSlope = b.times(b.plus(b.times(square, 3 * kGeluCubic), 1), kSqrtTwoOverPi);
  Value tSlope = b.mul(b.minusFrom(1, b.mul(t, t)), uSlope);
  out[0] = b.as(g[0], b.mul(slope, b.times(b.add(b.plus(t, 1), b.mul(x, tSlope)), 0.5)));
}

Value GeluOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Value x = in[0];
  Type type = x.getType();
  Value inner;
  if (getTanhApproximation()) {
    Value cube = arith::MulFOp::create(b, arith::MulFOp::create(b, x, x), x);
    Value sum = arith::AddFOp::create(b, x, arith::MulFOp::create(b, cube, scalar::constant(b, type, 0.044715)));
    inner = math::TanhOp::create(b, arith::MulFOp::create(b, sum, scalar::constant(b, type, std::sqrt(2 / M_PI))));
  } else {
    inner = math::ErfOp::create(b, arith::MulFOp::create(b, x, scalar::constant(b, type, std::sqrt(0.5))));
  }
  Value half = arith::MulFOp::create(b, x, scalar::constant(b, type, 0.5));
  return arith::MulFOp::create(b, half, arith::AddFOp::create(b, inner, scalar::constant(b, type, 1)));
}

Tensor GeluOp::evaluate(ArrayRef<Tensor> in) {
  const bool isApproximate = getTanhApproximation();
  return mapFloats(*this, in[0], [isApproximate](double x) {
    double twicePhi = isApproximate ? 1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)) : 1 + std::erf(x / M_SQRT2);
    return 0.5 * x * twicePhi;
  });
}

//===-- nn.tanh -----------------------------------------------------------------------------------------------------------------------===//

// g (1 - y^2)
void TanhOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value y = b.wide(getResult());
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), b.minusFrom(1, b.mul(y, y))));
}

Value TanhOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::TanhOp::create(b, in[0]);
}

Tensor TanhOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::tanh(x); });
}

//===-- nn.sigmoid --------------------------------------------------------------------------------------------------------------------===//

// g y (1 - y)
void SigmoidOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value y = b.wide(getResult());
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), b.mul(y, b.minusFrom(1, y))));
}

// 1 / (1 + e^-x) = e^x / (1 + e^x), the one whose exponential is at most 1: it can become subnormal, but not overflow.
Value SigmoidOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Value x = in[0];
  Value one = scalar::constant(b, x.getType(), 1), zero = scalar::constant(b, x.getType(), 0);
  Value exponential = math::ExpOp::create(b, arith::NegFOp::create(b, math::AbsFOp::create(b, x)));
  Value numerator = arith::SelectOp::create(b, scalar::compare(b, Predicate::Lt, x, zero), exponential, one);
  return scalar::divide(b, numerator, arith::AddFOp::create(b, one, exponential));
}

Tensor SigmoidOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) {
    double exponential = std::exp(-std::fabs(x));
    return (x < 0 ? exponential : 1) / (1 + exponential);
  });
}

} // namespace ashlar::nn
