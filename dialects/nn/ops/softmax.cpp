// SPDX-License-Identifier: Apache-2.0
//
// Softmax and its relatives, row by row along the last dim. The expansion gives the same numbers as the reference semantics up to rounding,
// also for infinite logits and labels out of range.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::nn {

namespace {

// Broadcasts `rows`, of shape (rows...), along a new last dim to `type`.
Value broadcastRows(NnBuilder &b, Value rows, RankedTensorType type) {
  return BroadcastOp::create(b, type, rows, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1)));
}

Value reduceLast(NnBuilder &b, Reduction kind, Value input) {
  return ReduceOp::create(b, kind, input, ArrayRef<int64_t>{typeOf(input).getRank() - 1});
}

// x - max(x) along the last dim, and the sum of its exponentials.
struct ShiftedRows {
  Value shifted;
  Value exponentials;
  Value sum;
};

ShiftedRows shiftRows(NnBuilder &b, Value narrow) {
  Value input = b.wide(narrow);
  RankedTensorType type = typeOf(input);
  Value max = reduceLast(b, Reduction::Max, input);
  Value shifted = SubOp::create(b, input, broadcastRows(b, max, type));
  Value exponentials = ExpOp::create(b, shifted);
  return {shifted, exponentials, reduceLast(b, Reduction::Sum, exponentials)};
}

int64_t lastDim(Value x) {
  return typeOf(x).getRank() - 1;
}

// Returns the rule of a softmax: each row needs the whole last dim, or is written out.
ShardingRule softmaxRule(Operation *op) {
  ShardingRule rule = ShardingRule::elementwise(shapeOf(op->getResult(0)), /*numOperands=*/1);
  rule.factors.back().kind = FactorKind::Expanded;
  return rule;
}

// The largest element of a row, and the logarithm of the sum of exp(x - largest).
struct RowNorm {
  double largest;
  double logSum;

  double logSoftmax(double x) const { return x - largest - logSum; }
};

RowNorm normOfRow(const Tensor &input, int64_t begin, int64_t size) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = begin; i < begin + size; ++i) {
    largest = std::max(largest, input.getFloat(i));
  }
  for (int64_t i = begin; i < begin + size; ++i) {
    sum += std::exp(input.getFloat(i) - largest);
  }
  return {largest, std::log(sum)};
}

// Returns what `function` makes of the logarithm of the softmax of each element.
Tensor mapLogSoftmax(Operation *op, const Tensor &input, double (*function)(double)) {
  Tensor result(typeOf(op->getResult(0)));
  int64_t size = result.getShape().back();
  for (int64_t begin = 0; begin < result.getNumElements(); begin += size) {
    RowNorm norm = normOfRow(input, begin, size);
    for (int64_t i = begin; i < begin + size; ++i) {
      result.setFloat(i, function(norm.logSoftmax(input.getFloat(i))));
    }
  }
  return result;
}

} // namespace

//===-- nn.softmax --------------------------------------------------------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() {
  return getType().getRank() >= 1 ? success() : emitOpError("needs rank >= 1, has rank 0"); // C1
}

ShardingRule SoftmaxOp::getShardingRule() {
  return softmaxRule(*this);
}

// y (g - sum(g y))
void SoftmaxOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  int64_t classes = lastDim(getResult());
  Value y = b.wide(getResult()), slope = b.wide(g[0]);
  Value total = b.sum(b.mul(slope, y), classes);
  out[0] = b.as(g[0], b.mul(y, b.sub(slope, b.broadcastAlong(total, classes, getType().getShape()))));
}

Value SoftmaxOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
  ShiftedRows rows = shiftRows(b, getInput());
  // One quotient a row. The sum is at least 1, so its reciprocal is neither infinite nor subnormal; or it is NaN.
  Value reciprocal = DivOp::create(b, ConstantOp::create(b, splat(typeOf(rows.sum), 1)), rows.sum);
  return b.as(getType().getElementType(), MulOp::create(b, rows.exponentials, broadcastRows(b, reciprocal, typeOf(rows.shifted))));
}

Tensor SoftmaxOp::evaluate(ArrayRef<Tensor> in) {
  return mapLogSoftmax(*this, in[0], [](double x) { return std::exp(x); });
}

//===-- nn.log_softmax ----------------------------------------------------------------------------------------------------------------===//

LogicalResult LogSoftmaxOp::verify() {
  return getType().getRank() >= 1 ? success() : emitOpError("needs rank >= 1, has rank 0"); // C1
}

ShardingRule LogSoftmaxOp::getShardingRule() {
  return softmaxRule(*this);
}

// g - e^y sum(g)
void LogSoftmaxOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  int64_t classes = lastDim(getResult());
  Value slope = b.wide(g[0]);
  Value total = b.broadcastAlong(b.sum(slope, classes), classes, getType().getShape());
  out[0] = b.as(g[0], b.sub(slope, b.mul(ExpOp::create(b, b.wide(getResult())), total)));
}

Value LogSoftmaxOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
  ShiftedRows rows = shiftRows(b, getInput());
  return b.as(getType().getElementType(),
              SubOp::create(b, rows.shifted, broadcastRows(b, LogOp::create(b, rows.sum), typeOf(rows.shifted))));
}

Tensor LogSoftmaxOp::evaluate(ArrayRef<Tensor> in) {
  return mapLogSoftmax(*this, in[0], [](double x) { return x; });
}

//===-- nn.softmax_cross_entropy ------------------------------------------------------------------------------------------------------===//

LogicalResult SoftmaxCrossEntropyOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                      SmallVectorImpl<Type> &types) {
  RankedTensorType logits = typeOf(adaptor.getLogits()), labels = typeOf(adaptor.getLabels());
  if (logits.getRank() < 1 || logits.getShape().drop_back() != labels.getShape()) { // C1
    return emitOptionalError(loc, "labels have type ", labels, " but logits have type ", logits);
  }
  types.push_back(logits.clone(labels.getShape()));
  return success();
}

// softmax_cross_entropy: ([i, c], [i]) -> ([i]) expanded={c}
ShardingRule SoftmaxCrossEntropyOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/2);
  rule.operands.front().push_back({rule.addFactor(shapeOf(getLogits()).back(), FactorKind::Expanded)});
  return rule;
}

// (softmax(logits) - onehot(label)) g, and 0 in rows whose label is outside [0, classes)
void SoftmaxCrossEntropyOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
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

// log(sum) - shifted[label], and 0 where the label is out of range.
Value SoftmaxCrossEntropyOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
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
  return b.as(getType().getElementType(), SelectOp::create(b, rowsType, valid, loss, ConstantOp::create(b, splat(rowsType, 0))));
}

Tensor SoftmaxCrossEntropyOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &logits = operands[0], &labels = operands[1];
  Tensor result(getType());
  int64_t classes = logits.getShape().back();
  for (int64_t row = 0; row < result.getNumElements(); ++row) {
    int64_t label = labels.getInt(row);
    if (label >= 0 && label < classes) {
      RowNorm norm = normOfRow(logits, row * classes, classes);
      result.setFloat(row, -norm.logSoftmax(logits.getFloat(row * classes + label)));
    }
  }
  return result;
}

} // namespace ashlar::nn
