// SPDX-License-Identifier: Apache-2.0
//
// Ops that are compositions of others, written out. The one rule: what comes out must give the same numbers as the op's reference semantics
// up to rounding, also for infinite logits and for labels out of range. Rows narrower than f32 are computed in f32 and rounded once.

#include "dialects/nn/nn.h"
#include "dialects/nn/pairs.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// Returns x, in f32 when its type is narrower.
Value wide(ImplicitLocOpBuilder &b, Value x) {
  RankedTensorType type = typeOf(x);
  return isNarrowFloat(type.getElementType()) ? CastOp::create(b, type.clone(b.getF32Type()), x).getResult() : x;
}

// Returns x as `type`, of the same shape.
Value as(ImplicitLocOpBuilder &b, RankedTensorType type, Value x) {
  return x.getType() == type ? x : CastOp::create(b, type, x).getResult();
}

// Broadcasts `rows`, of shape (rows...), along a new last dim to `type`.
Value broadcastRows(ImplicitLocOpBuilder &b, Value rows, RankedTensorType type) {
  return BroadcastOp::create(b, type, rows, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1)));
}

Value reduceLast(ImplicitLocOpBuilder &b, Reduction kind, Value input) {
  return ReduceOp::create(b, kind, input, ArrayRef<int64_t>{typeOf(input).getRank() - 1});
}

// x - max(x) along the last dim, and the sum of its exponentials.
struct ShiftedRows {
  Value shifted;
  Value exponentials;
  Value sum;
};

ShiftedRows shiftRows(ImplicitLocOpBuilder &b, Value narrow) {
  Value input = wide(b, narrow);
  RankedTensorType type = typeOf(input);
  Value max = reduceLast(b, Reduction::Max, input);
  Value shifted = SubOp::create(b, input, broadcastRows(b, max, type));
  Value exponentials = ExpOp::create(b, shifted);
  return {shifted, exponentials, reduceLast(b, Reduction::Sum, exponentials)};
}

} // namespace

// mean = sum(x) / n, variance = sum(x^2) / n - mean^2, in f64. Rounding may leave a variance below 0 where all x are equal.
Value MomentsOp::buildExpansion(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value x = as(b, typeOf(getInput()).clone(b.getF64Type()), getInput());
  Value sum = ReduceOp::create(b, Reduction::Sum, x, getDims());
  Value squares = ReduceOp::create(b, Reduction::Sum, MulOp::create(b, x, x), getDims());
  Value sums = pairUp(b, sum, squares); // one tensor, so that one collective combines the parts of both
  double count = static_cast<double>(typeOf(x).getNumElements()) / static_cast<double>(typeOf(sum).getNumElements());
  Value means = MulOp::create(b, sums, ConstantOp::create(b, splat(typeOf(sums), 1 / count)));
  Value mean = partOf(b, means, 0);
  Value variance = SubOp::create(b, partOf(b, means, 1), MulOp::create(b, mean, mean));
  variance = MaxOp::create(b, variance, ConstantOp::create(b, splat(typeOf(variance), 0)));
  return as(b, getType(), pairUp(b, mean, variance));
}

// (x - mean) * (scale * (1 / sqrt(variance + epsilon))) + shift. The difference comes first: it is small where x and its mean are large.
Value NormalizeOp::buildExpansion(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value x = wide(b, getInput()), variance = wide(b, getVariance());
  auto repeated = [&](Value statistic) { return BroadcastOp::create(b, typeOf(x), wide(b, statistic), getDims()).getResult(); };
  auto constant = [&](double value) { return ConstantOp::create(b, splat(typeOf(variance), value)).getResult(); };
  Value root = SqrtOp::create(b, AddOp::create(b, variance, constant(getEpsilon().convertToDouble())));
  Value factor = MulOp::create(b, wide(b, getScale()), DivOp::create(b, constant(1), root));
  Value scaled = MulOp::create(b, SubOp::create(b, x, repeated(getMean())), repeated(factor));
  return as(b, getType(), AddOp::create(b, scaled, repeated(getShift())));
}

Value SoftmaxOp::buildExpansion(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  ShiftedRows rows = shiftRows(b, getInput());
  // One quotient a row. The sum is at least 1, so its reciprocal is neither infinite nor subnormal; or it is NaN.
  Value reciprocal = DivOp::create(b, ConstantOp::create(b, splat(typeOf(rows.sum), 1)), rows.sum);
  return as(b, getType(), MulOp::create(b, rows.exponentials, broadcastRows(b, reciprocal, typeOf(rows.shifted))));
}

Value LogSoftmaxOp::buildExpansion(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  ShiftedRows rows = shiftRows(b, getInput());
  return as(b, getType(), SubOp::create(b, rows.shifted, broadcastRows(b, LogOp::create(b, rows.sum), typeOf(rows.shifted))));
}

// log(sum) - shifted[label], and 0 where the label is out of range.
Value SoftmaxCrossEntropyOp::buildExpansion(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  ShiftedRows rows = shiftRows(b, getLogits());
  RankedTensorType logits = typeOf(rows.shifted);
  RankedTensorType rowsType = typeOf(rows.sum);
  int64_t classes = logits.getShape().back();

  RankedTensorType indexType = logits.clone(b.getI64Type());
  SmallVector<int64_t> strides(logits.getRank(), 0);
  strides.back() = 1;
  Value label = getLabels();
  if (!typeOf(label).getElementType().isInteger(64)) {
    label = CastOp::create(b, rowsType.clone(b.getI64Type()), label);
  }
  Value position = IndexOp::create(b, indexType, strides);
  Value isLabel = CompareOp::create(b, logits.clone(b.getI1Type()), Predicate::Eq, position, broadcastRows(b, label, indexType));
  Value zeros = ConstantOp::create(b, splat(logits, 0));
  Value picked = reduceLast(b, Reduction::Sum, SelectOp::create(b, logits, isLabel, rows.shifted, zeros));
  Value loss = SubOp::create(b, LogOp::create(b, rows.sum), picked);

  RankedTensorType boolType = rowsType.clone(b.getI1Type());
  RankedTensorType labelType = rowsType.clone(b.getI64Type());
  Value notNegative = CompareOp::create(b, boolType, Predicate::Ge, label, ConstantOp::create(b, splat(labelType, 0)));
  Value inRange =
      CompareOp::create(b, boolType, Predicate::Lt, label, ConstantOp::create(b, splat(labelType, static_cast<double>(classes))));
  Value valid = AndOp::create(b, notNegative, inRange);
  return as(b, getType(), SelectOp::create(b, rowsType, valid, loss, ConstantOp::create(b, splat(rowsType, 0))));
}

} // namespace ashlar::nn
