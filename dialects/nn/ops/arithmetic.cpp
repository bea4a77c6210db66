// SPDX-License-Identifier: Apache-2.0
//
// Signs, roundings, sums, products, quotients and extrema of elements. The scalar forms are IEEE 754's, with NaN, infinities, signs of zero
// and subnormal numbers: a value that two kernels compute is the same number in both, or a maximum is not found again where its gradient
// goes. Folds are identities only, so that no number changes.

#include "dialects/nn/functions.h"
#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/op_checks.h"
#include "dialects/nn/ops/scalar_code.h"
#include "dialects/nn/straight_through.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace ashlar::nn {

namespace {

// Returns true when `attribute` is a splat of `value`.
bool isSplat(Attribute attribute, double value) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(attribute);
  if (!dense || !dense.isSplat()) {
    return false;
  }
  if (isa<FloatType>(dense.getElementType())) {
    return dense.getSplatValue<APFloat>().convertToDouble() == value;
  }
  return isa<IntegerType>(dense.getElementType()) && dense.getSplatValue<APInt>().getSExtValue() == static_cast<int64_t>(value);
}

// Returns true when `attribute` is a splat of a zero that can be added to all numbers without changing one: -0 + 0 is 0, so it is -0, or
// with `subtracted` 0. Integers have one zero.
bool isNeutralZero(Attribute attribute, bool subtracted) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(attribute);
  bool isFloat = dense && isa<FloatType>(dense.getElementType());
  return isSplat(attribute, 0) && (!isFloat || dense.getSplatValue<APFloat>().isNegative() != subtracted);
}

// Returns -x; the lowest number wraps around.
int64_t negated(int64_t x) {
  return static_cast<int64_t>(-wordOf(x));
}

// Returns -1, 0 or 1; zeros keep their sign, and a NaN stays one.
template <typename T> T signOf(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x;
}

} // namespace

//===-- nn.neg ------------------------------------------------------------------------------------------------------------------------===//

void NegOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  out[0] = NnBuilder(*this, builder).neg(g[0]);
}

Value NegOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return scalar::isFloat(in[0]) ? Value(arith::NegFOp::create(b, in[0]))
                                : Value(arith::SubIOp::create(b, scalar::constant(b, in[0].getType(), 0), in[0]));
}

Tensor NegOp::evaluate(ArrayRef<Tensor> in) {
  return in[0].isFloat() ? mapFloats(*this, in[0], [](double x) { return -x; }) : mapInts(*this, in[0], negated);
}

//===-- nn.abs ------------------------------------------------------------------------------------------------------------------------===//

void AbsOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.mul(g[0], SignOp::create(b, getInput()));
}

// Of an integer without math.absi, which the cuda target has no code for.
Value AbsOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  if (scalar::isFloat(in[0])) {
    return math::AbsFOp::create(b, in[0]);
  }
  Value negative = arith::SubIOp::create(b, scalar::constant(b, in[0].getType(), 0), in[0]);
  return scalar::hasNoSign(*this) ? in[0] : Value(arith::MaxSIOp::create(b, in[0], negative));
}

Tensor AbsOp::evaluate(ArrayRef<Tensor> in) {
  if (in[0].isFloat()) {
    return mapFloats(*this, in[0], [](double x) { return std::fabs(x); });
  }
  return mapInts(*this, in[0], [&](int64_t x) { return x < 0 && !in[0].isWord() ? negated(x) : x; });
}

//===-- nn.sign -----------------------------------------------------------------------------------------------------------------------===//

void SignOp::buildGradients(OpBuilder &, ValueRange, Gradients) {} // zero everywhere

// Zeros, which keep their sign, and NaN are neither above nor below 0.
Value SignOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Value x = in[0];
  const bool hasNoSign = scalar::hasNoSign(*this);
  Value zero = scalar::constant(b, x.getType(), 0);
  Value below = arith::SelectOp::create(b, scalar::compare(b, Predicate::Lt, x, zero, hasNoSign), scalar::constant(b, x.getType(), -1), x);
  return arith::SelectOp::create(b, scalar::isPositive(b, x, hasNoSign), scalar::constant(b, x.getType(), 1), below);
}

Tensor SignOp::evaluate(ArrayRef<Tensor> in) {
  if (in[0].isFloat()) {
    return mapFloats(*this, in[0], signOf<double>);
  }
  return mapInts(*this, in[0], [&](int64_t x) { return in[0].isWord() ? int64_t(x != 0) : signOf(x); });
}

//===-- nn.floor, nn.ceil, nn.round ---------------------------------------------------------------------------------------------------===//

// Zero everywhere, except where a round has the attribute of a straight-through estimate.
void FloorOp::buildGradients(OpBuilder &, ValueRange, Gradients) {}
void CeilOp::buildGradients(OpBuilder &, ValueRange, Gradients) {}
void RoundOp::buildGradients(OpBuilder &, ValueRange g, Gradients out) {
  out[0] = (*this)->hasAttr(kStraightThroughAttr) ? g[0] : Value();
}

Value FloorOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::FloorOp::create(b, in[0]);
}

Value CeilOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::CeilOp::create(b, in[0]);
}

Value RoundOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return math::RoundEvenOp::create(b, in[0]);
}

Tensor FloorOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::floor(x); });
}

Tensor CeilOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::ceil(x); });
}

Tensor RoundOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], [](double x) { return std::nearbyint(x); }); // to even where two are as near
}

//===-- nn.add ------------------------------------------------------------------------------------------------------------------------===//

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  return !isNamed(*this) && isNeutralZero(adaptor.getRhs(), /*subtracted=*/false) ? OpFoldResult(getLhs()) : OpFoldResult();
}

void AddOp::buildGradients(OpBuilder &, ValueRange g, Gradients out) {
  out[0] = out[1] = g[0];
}

Value AddOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return scalar::arithmetic<arith::AddFOp, arith::AddIOp>(b, in);
}

Tensor AddOp::evaluate(ArrayRef<Tensor> in) {
  if (in[0].isFloat()) {
    return mapFloats(*this, in[0], in[1], [](double x, double y) { return x + y; });
  }
  return mapInts(*this, in[0], in[1], [](int64_t x, int64_t y) { return static_cast<int64_t>(wordOf(x) + wordOf(y)); });
}

//===-- nn.sub ------------------------------------------------------------------------------------------------------------------------===//

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  return !isNamed(*this) && isNeutralZero(adaptor.getRhs(), /*subtracted=*/true) ? OpFoldResult(getLhs()) : OpFoldResult();
}

void SubOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  out[0] = g[0];
  out[1] = NnBuilder(*this, builder).neg(g[0]);
}

Value SubOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return scalar::arithmetic<arith::SubFOp, arith::SubIOp>(b, in);
}

Tensor SubOp::evaluate(ArrayRef<Tensor> in) {
  if (in[0].isFloat()) {
    return mapFloats(*this, in[0], in[1], [](double x, double y) { return x - y; });
  }
  return mapInts(*this, in[0], in[1], [](int64_t x, int64_t y) { return static_cast<int64_t>(wordOf(x) - wordOf(y)); });
}

//===-- nn.mul ------------------------------------------------------------------------------------------------------------------------===//

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (!isNamed(*this) && isSplat(adaptor.getLhs(), 1)) { // only where both are constants: else the constant stands on the right
    return getRhs();
  }
  return !isNamed(*this) && isSplat(adaptor.getRhs(), 1) ? OpFoldResult(getLhs()) : OpFoldResult();
}

void MulOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.mul(g[0], getRhs());
  out[1] = b.mul(g[0], getLhs());
}

Value MulOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return scalar::arithmetic<arith::MulFOp, arith::MulIOp>(b, in);
}

Tensor MulOp::evaluate(ArrayRef<Tensor> in) {
  if (in[0].isFloat()) {
    return mapFloats(*this, in[0], in[1], [](double x, double y) { return x * y; });
  }
  return mapInts(*this, in[0], in[1], [](int64_t x, int64_t y) { return static_cast<int64_t>(wordOf(x) * wordOf(y)); });
}

//===-- nn.div ------------------------------------------------------------------------------------------------------------------------===//

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  return !isNamed(*this) && isSplat(adaptor.getRhs(), 1) ? OpFoldResult(getLhs()) : OpFoldResult();
}

// g / rhs and -(g / rhs) y
void DivOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.div(g[0], getRhs());
  out[1] = b.neg(b.mul(out[0], getResult()));
}

Value DivOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return scalar::divide(b, in[0], in[1], scalar::hasNoSign(*this));
}

Tensor DivOp::evaluate(ArrayRef<Tensor> in) {
  if (in[0].isFloat()) {
    return mapFloats(*this, in[0], in[1], [](double x, double y) { return x / y; });
  }
  return mapInts(*this, in[0], in[1], [&](int64_t x, int64_t y) { // 0 where C++ leaves it open
    if (y == 0) {
      return int64_t(0);
    }
    return in[0].isWord() ? static_cast<int64_t>(wordOf(x) / wordOf(y)) : y == -1 ? negated(x) : x / y;
  });
}

//===-- nn.rem ------------------------------------------------------------------------------------------------------------------------===//

// g and -g trunc(lhs / rhs), the whole number that the rest leaves
void RemOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = g[0];
  Value whole = RoundOp::create(b, b.div(b.sub(b.wide(getLhs()), b.wide(getResult())), b.wide(getRhs())));
  out[1] = b.as(g[0], b.neg(b.mul(b.wide(g[0]), whole)));
}

Value RemOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return arith::RemFOp::create(b, in[0], in[1]);
}

Tensor RemOp::evaluate(ArrayRef<Tensor> in) {
  return mapFloats(*this, in[0], in[1], [](double x, double y) { return std::fmod(x, y); });
}

//===-- nn.max, nn.min ----------------------------------------------------------------------------------------------------------------===//

namespace {

void buildExtremumGradients(NnBuilder &b, Value lhsWins, Value g, Gradients out) {
  out[0] = b.selectOrZero(lhsWins, g);
  out[1] = b.zeroOrSelect(lhsWins, g);
}

} // namespace

void MaxOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  buildExtremumGradients(b, b.compare(Predicate::Ge, getLhs(), getRhs()), g[0], out);
}

Value MaxOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return scalar::extremum(b, /*isMax=*/true, in[0], in[1], scalar::hasNoSign(*this));
}

// A NaN wins, and -0 is less than 0.
Tensor MaxOp::evaluate(ArrayRef<Tensor> in) {
  if (in[0].isFloat()) {
    return mapFloats(*this, in[0], in[1],
                     [](double x, double y) { return std::isnan(x) || x > y || (x == y && !std::signbit(x)) ? x : y; });
  }
  return mapInts(*this, in[0], in[1], [&](int64_t x, int64_t y) {
    return in[0].isWord() ? static_cast<int64_t>(std::max(wordOf(x), wordOf(y))) : std::max(x, y);
  });
}

void MinOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  buildExtremumGradients(b, b.compare(Predicate::Le, getLhs(), getRhs()), g[0], out);
}

Value MinOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return scalar::extremum(b, /*isMax=*/false, in[0], in[1], scalar::hasNoSign(*this));
}

// A NaN wins, and -0 is less than 0.
Tensor MinOp::evaluate(ArrayRef<Tensor> in) {
  if (in[0].isFloat()) {
    return mapFloats(*this, in[0], in[1], [](double x, double y) { return std::isnan(x) || x < y || (x == y && std::signbit(x)) ? x : y; });
  }
  return mapInts(*this, in[0], in[1], [&](int64_t x, int64_t y) {
    return in[0].isWord() ? static_cast<int64_t>(std::min(wordOf(x), wordOf(y))) : std::min(x, y);
  });
}

} // namespace ashlar::nn
