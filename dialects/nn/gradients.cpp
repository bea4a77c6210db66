// SPDX-License-Identifier: Apache-2.0
//
// The gradient of every differentiable nn op, written in nn ops only. Where the result says as much as the operand (exp, tanh, relu,
// softmax ...) the result is read, so that the operand may die early. Labels, conditions and integers get no gradient. Formulas of several
// ops run in f32 where the tensors are narrower, and are rounded once.

#include "dialects/nn/functions.h"
#include "dialects/nn/pairs.h"
#include "dialects/nn/straight_through.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cmath>

using namespace mlir;

namespace ashlar::nn {

namespace {

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
constexpr double kOneOverSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;
constexpr double kGeluFlat = 40; // beyond, gelu is 0 or x also in f64, and the powers in its slope would overflow

using Gradients = MutableArrayRef<Value>;

// A builder at the location of the forward op, with one short function for each op a gradient is written in.
class GradientBuilder : public ImplicitLocOpBuilder {
public:
  GradientBuilder(Operation *op, OpBuilder &builder) : ImplicitLocOpBuilder(op->getLoc(), builder) {}

  Value constant(RankedTensorType type, double value) { return ConstantOp::create(*this, splat(type, value)); }
  Value neg(Value x) { return NegOp::create(*this, x); }
  Value add(Value x, Value y) { return AddOp::create(*this, x, y); }
  Value sub(Value x, Value y) { return SubOp::create(*this, x, y); }
  Value mul(Value x, Value y) { return MulOp::create(*this, x, y); }
  Value div(Value x, Value y) { return DivOp::create(*this, x, y); }

  // Returns x + value, x * value.
  Value plus(Value x, double value) { return add(x, constant(typeOf(x), value)); }
  Value times(Value x, double value) { return mul(x, constant(typeOf(x), value)); }

  // Returns value - x.
  Value minusFrom(double value, Value x) { return sub(constant(typeOf(x), value), x); }

  Value compare(Predicate predicate, Value x, Value y) { return CompareOp::create(*this, typeOf(x).clone(getI1Type()), predicate, x, y); }
  Value compare(Predicate predicate, Value x, double value) { return compare(predicate, x, constant(typeOf(x), value)); }
  Value select(Value condition, Value onTrue, Value onFalse) {
    return SelectOp::create(*this, onTrue.getType(), condition, onTrue, onFalse);
  }
  Value selectOrZero(Value condition, Value onTrue) { return select(condition, onTrue, constant(typeOf(onTrue), 0)); }
  Value zeroOrSelect(Value condition, Value onFalse) { return select(condition, constant(typeOf(onFalse), 0), onFalse); }

  Value sum(Value x, ArrayRef<int64_t> dims) { return ReduceOp::create(*this, Reduction::Sum, x, dims); }

  // Returns x in the element type of `like`.
  Value as(Value like, Value x) {
    Type element = typeOf(like).getElementType();
    return typeOf(x).getElementType() == element ? x : CastOp::create(*this, typeOf(x).clone(element), x).getResult();
  }

  // Returns x, in f32 when its type is narrower.
  Value wide(Value x) {
    RankedTensorType type = typeOf(x);
    return isNarrowFloat(type.getElementType()) ? CastOp::create(*this, type.clone(getF32Type()), x).getResult() : x;
  }

  // Returns x repeated along `dims`, dims of the result of type `shape` which x lacks: the inverse of a reduction.
  Value broadcastAlong(Value x, ArrayRef<int64_t> dims, ArrayRef<int64_t> shape) {
    return BroadcastOp::create(*this, typeOf(x).clone(shape), x, otherDims(dims, shape.size()));
  }

  // Returns the dims of a tensor of `rank` that are not in `dims`.
  static SmallVector<int64_t> otherDims(ArrayRef<int64_t> dims, int64_t rank) {
    SmallVector<int64_t> others;
    for (int64_t d = 0; d < rank; ++d) {
      if (!llvm::is_contained(dims, d)) {
        others.push_back(d);
      }
    }
    return others;
  }
};

int64_t lastDim(Value x) {
  return typeOf(x).getRank() - 1;
}

} // namespace

//===-- Element-wise, one operand -----------------------------------------------------------------------------------------------------===//

void NegOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  out[0] = GradientBuilder(*this, builder).neg(g[0]);
}

void AbsOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.mul(g[0], SignOp::create(b, getInput()));
}

// Zero everywhere, but for a round that says otherwise.
void SignOp::buildGradients(OpBuilder &, ValueRange, Gradients) {}
void FloorOp::buildGradients(OpBuilder &, ValueRange, Gradients) {}
void CeilOp::buildGradients(OpBuilder &, ValueRange, Gradients) {}
void RoundOp::buildGradients(OpBuilder &, ValueRange g, Gradients out) {
  out[0] = (*this)->hasAttr(kStraightThroughAttr) ? g[0] : Value();
}

void SinOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.mul(g[0], CosOp::create(b, getInput()));
}

void CosOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.neg(b.mul(g[0], SinOp::create(b, getInput())));
}

// g (1 + y^2)
void TanOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value y = b.wide(getResult());
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), b.plus(b.mul(y, y), 1)));
}

namespace {

// g / sqrt(1 - x^2), whose difference has no cancellation as a product.
Value buildArcGradient(GradientBuilder &b, Value input, Value g) {
  Value x = b.wide(input);
  Value root = SqrtOp::create(b, b.mul(b.minusFrom(1, x), b.plus(x, 1)));
  return b.as(g, b.div(b.wide(g), root));
}

} // namespace

void AsinOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = buildArcGradient(b, getInput(), g[0]);
}

void AcosOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.neg(buildArcGradient(b, getInput(), g[0]));
}

// g / (1 + x^2)
void AtanOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value x = b.wide(getInput());
  out[0] = b.as(g[0], b.div(b.wide(g[0]), b.plus(b.mul(x, x), 1)));
}

void SinhOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.mul(g[0], CoshOp::create(b, getInput()));
}

void CoshOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.mul(g[0], SinhOp::create(b, getInput()));
}

// g / sqrt(1 + x^2), the root as m sqrt(1 + (n / m)^2) with m and n the larger and the smaller of 1 and |x|: no square overflows.
void AsinhOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value size = AbsOp::create(b, b.wide(getInput())), one = b.constant(typeOf(size), 1);
  Value larger = MaxOp::create(b, size, one), ratio = b.div(MinOp::create(b, size, one), larger);
  Value root = b.mul(larger, SqrtOp::create(b, b.plus(b.mul(ratio, ratio), 1)));
  out[0] = b.as(g[0], b.div(b.wide(g[0]), root));
}

// g / sqrt(x^2 - 1), as two roots of which none overflows
void AcoshOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value x = b.wide(getInput());
  Value root = b.mul(SqrtOp::create(b, b.plus(x, -1)), SqrtOp::create(b, b.plus(x, 1)));
  out[0] = b.as(g[0], b.div(b.wide(g[0]), root));
}

// g / (1 - x^2)
void AtanhOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value x = b.wide(getInput());
  out[0] = b.as(g[0], b.div(b.wide(g[0]), b.mul(b.minusFrom(1, x), b.plus(x, 1))));
}

void ExpOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  out[0] = GradientBuilder(*this, builder).mul(g[0], getResult());
}

void LogOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  out[0] = GradientBuilder(*this, builder).div(g[0], getInput());
}

// g / (2 y)
void SqrtOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.div(b.times(g[0], 0.5), getResult());
}

// g 2/sqrt(pi) e^(-x^2)
void ErfOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value x = b.wide(getInput());
  Value density = ExpOp::create(b, b.neg(b.mul(x, x)));
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), b.times(density, kTwoOverSqrtPi)));
}

// g (1 - y^2)
void TanhOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value y = b.wide(getResult());
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), b.minusFrom(1, b.mul(y, y))));
}

// g y (1 - y)
void SigmoidOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value y = b.wide(getResult());
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), b.mul(y, b.minusFrom(1, y))));
}

void ReluOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.selectOrZero(b.compare(Predicate::Gt, getResult(), 0), g[0]);
}

void LeakyReluOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  double alpha = getAlpha().convertToDouble();
  Value sameSign = alpha >= 0 ? getResult() : Value(getInput()); // y > 0 exactly where x > 0, unless alpha turns the sign
  out[0] = b.select(b.compare(Predicate::Gt, sameSign, 0), g[0], b.times(g[0], alpha));
}

// exact: g (Phi(x) + x phi(x)); approximation with u = c (x + a x^3), t = tanh(u): g (0.5 (1 + t) + 0.5 x (1 - t^2) c (1 + 3 a x^2))
void GeluOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
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

void CastOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  if (isa<FloatType>(getInput().getType().getElementType()) && isa<FloatType>(getType().getElementType())) {
    GradientBuilder b(*this, builder);
    out[0] = CastOp::create(b, getInput().getType(), g[0]);
  }
}

//===-- Element-wise, several operands ------------------------------------------------------------------------------------------------===//

void AddOp::buildGradients(OpBuilder &, ValueRange g, Gradients out) {
  out[0] = out[1] = g[0];
}

void SubOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  out[0] = g[0];
  out[1] = GradientBuilder(*this, builder).neg(g[0]);
}

void MulOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.mul(g[0], getRhs());
  out[1] = b.mul(g[0], getLhs());
}

// g / rhs and -(g / rhs) y
void DivOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.div(g[0], getRhs());
  out[1] = b.neg(b.mul(out[0], getResult()));
}

// g and -g trunc(lhs / rhs), the whole number that the rest leaves
void RemOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = g[0];
  Value whole = RoundOp::create(b, b.div(b.sub(b.wide(getLhs()), b.wide(getResult())), b.wide(getRhs())));
  out[1] = b.as(g[0], b.neg(b.mul(b.wide(g[0]), whole)));
}

// g rhs lhs^(rhs - 1), 0 where rhs = 0; g y log(lhs), 0 where lhs <= 0
void PowOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value lhs = b.wide(getLhs()), rhs = b.wide(getRhs()), gradient = b.wide(g[0]);
  Value slope = b.mul(rhs, PowOp::create(b, lhs, b.plus(rhs, -1)));
  out[0] = b.as(g[0], b.mul(gradient, b.zeroOrSelect(b.compare(Predicate::Eq, rhs, 0), slope)));
  Value exponentSlope = b.mul(b.wide(getResult()), LogOp::create(b, lhs));
  out[1] = b.as(g[0], b.mul(gradient, b.selectOrZero(b.compare(Predicate::Gt, lhs, 0), exponentSlope)));
}

namespace {

void buildExtremumGradients(GradientBuilder &b, Value lhsWins, Value g, Gradients out) {
  out[0] = b.selectOrZero(lhsWins, g);
  out[1] = b.zeroOrSelect(lhsWins, g);
}

} // namespace

void MaxOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  buildExtremumGradients(b, b.compare(Predicate::Ge, getLhs(), getRhs()), g[0], out);
}

void MinOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  buildExtremumGradients(b, b.compare(Predicate::Le, getLhs(), getRhs()), g[0], out);
}

void SelectOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[1] = b.selectOrZero(getCondition(), g[0]);
  out[2] = b.zeroOrSelect(getCondition(), g[0]);
}

//===-- Shape -------------------------------------------------------------------------------------------------------------------------===//

void BroadcastOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = b.sum(g[0], GradientBuilder::otherDims(getDims(), getType().getRank()));
}

void ReshapeOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = ReshapeOp::create(b, getInput().getType(), g[0]);
}

void TransposeOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation())) {
    inverse[dim] = i;
  }
  out[0] = TransposeOp::create(b, g[0], inverse);
}

void ConcatOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  SmallVector<int64_t> starts(getType().getRank(), 0), limits(getType().getShape()), steps(getType().getRank(), 1);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    limits[getDim()] = starts[getDim()] + typeOf(input).getDimSize(getDim());
    out[i] = SliceOp::create(b, g[0], starts, limits, steps);
    starts[getDim()] = limits[getDim()];
  }
}

void SliceOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  SmallVector<int64_t> interior = llvm::map_to_vector(getSteps(), [](int64_t step) { return step - 1; });
  out[0] = PadOp::create(b, getInput().getType(), g[0], getStarts(), interior);
}

void PadOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  SmallVector<int64_t> limits, steps;
  for (auto [size, low, interior] : llvm::zip_equal(getInput().getType().getShape(), getLow(), getInterior())) {
    steps.push_back(interior + 1);
    limits.push_back(size == 0 ? low : low + (size - 1) * (interior + 1) + 1);
  }
  out[0] = SliceOp::create(b, g[0], getLow(), limits, steps);
}

void GatherOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[0] = ScatterAddOp::create(b, getTable().getType(), getIndices(), g[0], getBatchDims());
}

void ScatterAddOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  out[1] = GatherOp::create(b, g[0], getIndices(), getBatchDims());
}

//===-- Reduction, contraction, loss --------------------------------------------------------------------------------------------------===//

void ReduceOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  ArrayRef<int64_t> shape = getInput().getType().getShape();
  if (getKind() == Reduction::Sum) {
    out[0] = b.broadcastAlong(g[0], getDims(), shape);
    return;
  }
  Value wins = b.compare(Predicate::Eq, getInput(), b.broadcastAlong(getResult(), getDims(), shape));
  Value count = b.sum(CastOp::create(b, getInput().getType(), wins), getDims());
  out[0] = b.selectOrZero(wins, b.broadcastAlong(b.div(g[0], count), getDims(), shape));
}

// With C = op(A) op(B): dop(A) = G op(B)^T, dop(B) = op(A)^T G; a transposed operand swaps the factors. Only flags, no transposes. Products
// of bf16 or f16 with an f32 result have gradients of their own type.
void MatMulOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  bool transposeA = getTransposeA(), transposeB = getTransposeB();
  Value slope = b.as(getLhs(), g[0]);
  out[0] = transposeA ? MatMulOp::create(b, getRhs(), slope, /*transpose_a=*/transposeB, /*transpose_b=*/true)
                      : MatMulOp::create(b, slope, getRhs(), /*transpose_a=*/false, /*transpose_b=*/!transposeB);
  out[1] = transposeB ? MatMulOp::create(b, slope, getLhs(), /*transpose_a=*/true, /*transpose_b=*/transposeA)
                      : MatMulOp::create(b, getLhs(), slope, /*transpose_a=*/!transposeA, /*transpose_b=*/false);
}

// y (g - sum(g y))
void SoftmaxOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  int64_t classes = lastDim(getResult());
  Value y = b.wide(getResult()), slope = b.wide(g[0]);
  Value total = b.sum(b.mul(slope, y), classes);
  out[0] = b.as(g[0], b.mul(y, b.sub(slope, b.broadcastAlong(total, classes, getType().getShape()))));
}

// g - e^y sum(g)
void LogSoftmaxOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  int64_t classes = lastDim(getResult());
  Value slope = b.wide(g[0]);
  Value total = b.broadcastAlong(b.sum(slope, classes), classes, getType().getShape());
  out[0] = b.as(g[0], b.sub(slope, b.mul(ExpOp::create(b, b.wide(getResult())), total)));
}

// (softmax(logits) - onehot(label)) g, and 0 in rows whose label is outside [0, classes)
void SoftmaxCrossEntropyOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  RankedTensorType type = getLogits().getType();
  ArrayRef<int64_t> shape = type.getShape();
  int64_t classes = type.getRank() - 1;
  Value labels = getLabels();
  if (!typeOf(labels).getElementType().isInteger(64)) {
    labels = CastOp::create(b, typeOf(labels).clone(b.getI64Type()), labels);
  }
  Value valid = AndOp::create(b, b.compare(Predicate::Ge, labels, 0), b.compare(Predicate::Lt, labels, shape.back()));
  SmallVector<int64_t> strides(type.getRank(), 0);
  strides.back() = 1;
  Value classIndex = IndexOp::create(b, type.clone(b.getI64Type()), strides);
  Value isLabel = b.compare(Predicate::Eq, classIndex, b.broadcastAlong(labels, classes, shape));
  Value probability = SoftmaxOp::create(b, b.wide(getLogits()));
  Value difference = b.select(isLabel, b.plus(probability, -1), probability);
  out[0] = b.as(getLogits(), b.mul(difference, b.broadcastAlong(b.selectOrZero(valid, b.wide(g[0])), classes, shape)));
}

//===-- Normalization -----------------------------------------------------------------------------------------------------------------===//

// (gmean + 2 gvariance (x - mean)) / n, from the result's own mean: x is read once, and nothing is added up.
void MomentsOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  Value x = b.wide(getInput());
  ArrayRef<int64_t> shape = typeOf(x).getShape();
  double share = typeOf(g[0]).getNumElements() / 2.0 / typeOf(x).getNumElements(); // 1 / n
  auto along = [&](Value statistic) { return b.broadcastAlong(statistic, getDims(), shape); };
  Value meanSlope = b.times(partOf(b, g[0], 0), share), varianceSlope = b.times(partOf(b, g[0], 1), 2 * share);
  Value centred = b.sub(x, along(partOf(b, getResult(), 0)));
  out[0] = b.as(getInput(), b.add(along(meanSlope), b.mul(centred, along(varianceSlope))));
}

// With r = 1 / sqrt(variance + epsilon), s = sum(g) and t = sum(g (x - mean)):
//   gx = g scale r, gscale = t r, gshift = s, gmean = -s scale r, gvariance = -t scale r^3 / 2
void NormalizeOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  GradientBuilder b(*this, builder);
  SmallVector<int64_t> summed = GradientBuilder::otherDims(getDims(), getType().getRank());
  Value x = b.wide(getInput()), slope = b.wide(g[0]), scale = b.wide(getScale()), variance = b.wide(getVariance());
  auto along = [&](Value statistic) { return b.broadcastAlong(statistic, summed, getType().getShape()); };
  Value root = SqrtOp::create(b, b.plus(variance, getEpsilon().convertToDouble()));
  Value inverse = b.div(b.constant(typeOf(root), 1), root), factor = b.mul(scale, inverse);
  Value centred = b.sub(x, along(b.wide(getMean())));
  Value sums = pairUp(b, b.sum(slope, summed), b.sum(b.mul(slope, centred), summed));
  Value plain = partOf(b, sums, 0), weighted = partOf(b, sums, 1);
  out[0] = b.as(getInput(), b.mul(slope, along(factor)));
  out[1] = b.as(getScale(), b.mul(weighted, inverse));
  out[2] = b.as(getShift(), plain);
  out[3] = b.as(getMean(), b.neg(b.mul(plain, factor)));
  out[4] = b.as(getVariance(), b.times(b.mul(b.mul(weighted, factor), b.mul(inverse, inverse)), -0.5));
}

} // namespace ashlar::nn
