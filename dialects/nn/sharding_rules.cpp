// SPDX-License-Identifier: Apache-2.0
//
// The sharding rule of every nn op: which dims of its operands and results are the same factor. One function a family; the ops that only
// pass each dim through share ShardingRule::elementwise. Mirrored by test/passes/layout/print_sharding_rules.mlir.

#include "dialects/nn/functions.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/SmallBitVector.h"

#include <numeric>

using namespace mlir;

namespace ashlar::nn {

namespace {

// Returns the rule of an op whose one result has the shape of all its operands.
ShardingRule elementwiseRule(Operation *op) {
  return ShardingRule::elementwise(shapeOf(op->getResult(0)), op->getNumOperands());
}

// Returns the rule of a softmax: each row needs the whole last dim, or is written out.
ShardingRule softmaxRule(Operation *op) {
  ShardingRule rule = elementwiseRule(op);
  rule.factors.back().kind = FactorKind::Expanded;
  return rule;
}

// Adds one factor that passes from dim `from` of the operand to dim `to` of the result.
void passThrough(ShardingRule &rule, int64_t size, SmallVector<int64_t, 2> &from, SmallVector<int64_t, 2> &to) {
  int64_t factor = rule.addFactor(size);
  from.push_back(factor);
  to.push_back(factor);
}

// Returns the rule of an op that keeps the dims where `touched` is false and moves elements along the others, whose sizes may change.
ShardingRule dimwiseRule(Value input, Value result, const llvm::SmallBitVector &touched) {
  ShardingRule rule;
  ArrayRef<int64_t> from = shapeOf(input), to = shapeOf(result);
  TensorFactors operand(from.size()), output(to.size());
  for (size_t d = 0; d < from.size(); ++d) {
    if (touched.test(d)) {
      operand[d] = output[d] = {rule.addFactor(std::min(from[d], to[d]), FactorKind::Permutation)};
    } else {
      passThrough(rule, from[d], operand[d], output[d]);
    }
  }
  rule.operands = {operand};
  rule.results = {output};
  return rule;
}

// Builds the factors of a reshape. Both shapes are read major to minor; `left` and `right` are what is left of their current dims. The
// greatest common divisor of the two is a factor of both dims: it cuts both tensors into the same contiguous pieces. When nothing common
// is left, the two disagree up to the next place where the products of their dims are equal, and all of that stretch is needed whole.
//
//   [6, 4] -> [2, 12]: ([ij, k]) -> ([i, jk]), i=2 j=3 k=4      [2, 3] -> [3, 2]: nothing may be split
class ReshapeRule {
public:
  ReshapeRule(ArrayRef<int64_t> from, ArrayRef<int64_t> to) : from(from), to(to), operand(from.size()), result(to.size()) {}

  ShardingRule build() {
    nextLeft();
    nextRight();
    while (left != 1 && right != 1) {
      int64_t common = std::gcd(left, right);
      if (common == 1) {
        replicateStretch();
        continue;
      }
      passThrough(rule, common, operand[i - 1], result[j - 1]);
      left /= common;
      right /= common;
      nextLeft();
      nextRight();
    }
    rule.operands = {operand};
    rule.results = {result};
    return std::move(rule);
  }

private:
  // Moves on to the next operand dim while nothing is left of this one.
  void nextLeft() {
    while (left == 1 && i < from.size()) {
      left = from[i++];
    }
  }
  void nextRight() {
    while (right == 1 && j < to.size()) {
      right = to[j++];
    }
  }

  // Takes dims from both sides until their products agree; none of them may be split.
  void replicateStretch() {
    operand[i - 1].push_back(rule.addFactor(left, FactorKind::NeedReplication));
    result[j - 1].push_back(rule.addFactor(right, FactorKind::NeedReplication));
    while (left != right) {
      if (left < right) {
        operand[i].push_back(rule.addFactor(from[i], FactorKind::NeedReplication));
        left *= from[i++];
      } else {
        result[j].push_back(rule.addFactor(to[j], FactorKind::NeedReplication));
        right *= to[j++];
      }
    }
    left = right = 1;
    nextLeft();
    nextRight();
  }

  ArrayRef<int64_t> from, to;
  size_t i = 0, j = 0; // dims taken so far
  int64_t left = 1, right = 1;
  ShardingRule rule;
  TensorFactors operand, result;
};

// The factors of an op that finds rows by number: the batch, the places, the rows, the dims of a row.
struct RowFactors {
  TensorFactors places, indexed, elements; // of the indices, of (batch..., rows, rest...), of (batch..., places..., rest...)
};

RowFactors addRowFactors(ShardingRule &rule, ArrayRef<int64_t> places, ArrayRef<int64_t> indexed, int64_t batch, FactorKind placesKind,
                         FactorKind rowsKind) {
  RowFactors factors;
  for (auto [d, size] : llvm::enumerate(places)) {
    bool isBatch = static_cast<int64_t>(d) < batch;
    factors.places.push_back({rule.addFactor(size, isBatch ? FactorKind::PassThrough : placesKind)});
    if (isBatch) {
      factors.indexed.push_back(factors.places.back());
    }
  }
  factors.elements = factors.places;
  factors.indexed.push_back({rule.addFactor(indexed[batch], rowsKind)});
  for (int64_t size : indexed.drop_front(batch + 1)) {
    factors.indexed.push_back({rule.addFactor(size)});
    factors.elements.push_back(factors.indexed.back());
  }
  return factors;
}

} // namespace

#define ASHLAR_ELEMENTWISE_RULE(Op)                                                                                                        \
  ShardingRule Op::getShardingRule() {                                                                                                     \
    return elementwiseRule(*this);                                                                                                         \
  }

ASHLAR_ELEMENTWISE_RULE(AbsOp)
ASHLAR_ELEMENTWISE_RULE(AcoshOp)
ASHLAR_ELEMENTWISE_RULE(AcosOp)
ASHLAR_ELEMENTWISE_RULE(AddOp)
ASHLAR_ELEMENTWISE_RULE(AndOp)
ASHLAR_ELEMENTWISE_RULE(AsinhOp)
ASHLAR_ELEMENTWISE_RULE(AsinOp)
ASHLAR_ELEMENTWISE_RULE(AtanhOp)
ASHLAR_ELEMENTWISE_RULE(AtanOp)
ASHLAR_ELEMENTWISE_RULE(BitcastOp)
ASHLAR_ELEMENTWISE_RULE(CastOp)
ASHLAR_ELEMENTWISE_RULE(CeilOp)
ASHLAR_ELEMENTWISE_RULE(CompareOp)
ASHLAR_ELEMENTWISE_RULE(ConstantOp)
ASHLAR_ELEMENTWISE_RULE(CoshOp)
ASHLAR_ELEMENTWISE_RULE(CosOp)
ASHLAR_ELEMENTWISE_RULE(DivOp)
ASHLAR_ELEMENTWISE_RULE(ErfOp)
ASHLAR_ELEMENTWISE_RULE(ExpOp)
ASHLAR_ELEMENTWISE_RULE(FloorOp)
ASHLAR_ELEMENTWISE_RULE(GeluOp)
ASHLAR_ELEMENTWISE_RULE(GradientOp)
ASHLAR_ELEMENTWISE_RULE(IndexOp)
ASHLAR_ELEMENTWISE_RULE(LeakyReluOp)
ASHLAR_ELEMENTWISE_RULE(LogOp)
ASHLAR_ELEMENTWISE_RULE(MaxOp)
ASHLAR_ELEMENTWISE_RULE(MinOp)
ASHLAR_ELEMENTWISE_RULE(MulOp)
ASHLAR_ELEMENTWISE_RULE(NegOp)
ASHLAR_ELEMENTWISE_RULE(NotOp)
ASHLAR_ELEMENTWISE_RULE(OrOp)
ASHLAR_ELEMENTWISE_RULE(PowOp)
ASHLAR_ELEMENTWISE_RULE(ReluOp)
ASHLAR_ELEMENTWISE_RULE(RemOp)
ASHLAR_ELEMENTWISE_RULE(RoundOp)
ASHLAR_ELEMENTWISE_RULE(SelectOp)
ASHLAR_ELEMENTWISE_RULE(SigmoidOp)
ASHLAR_ELEMENTWISE_RULE(SignOp)
ASHLAR_ELEMENTWISE_RULE(SinhOp)
ASHLAR_ELEMENTWISE_RULE(SinOp)
ASHLAR_ELEMENTWISE_RULE(SqrtOp)
ASHLAR_ELEMENTWISE_RULE(SubOp)
ASHLAR_ELEMENTWISE_RULE(TanhOp)
ASHLAR_ELEMENTWISE_RULE(TanOp)

#undef ASHLAR_ELEMENTWISE_RULE

// broadcast [i] dims = [1] to [b, i]: ([i]) -> ([b, i])
ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/0);
  TensorFactors operand;
  for (int64_t dim : getDims()) {
    operand.push_back(rule.results.front()[dim]);
  }
  rule.operands = {operand};
  return rule;
}

ShardingRule ConcatOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), getInputs().size());
  Factor &joined = rule.factors[getDim()];
  joined.kind = FactorKind::Permutation;
  for (Value input : getInputs()) {
    joined.size = std::min(joined.size, shapeOf(input)[getDim()]);
  }
  return rule;
}

// gather batch_dims = 1: ([b, v, r], [b, i]) -> ([b, i, r]) sum={v}; a device gives zeros for the rows of others
ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule;
  RowFactors factors =
      addRowFactors(rule, shapeOf(getIndices()), shapeOf(getTable()), getBatchDims(), FactorKind::PassThrough, FactorKind::Reduction);
  rule.operands = {factors.indexed, factors.places};
  rule.results = {factors.elements};
  return rule;
}

// matmul: ([b, i, k], [b, k, j]) -> ([b, i, j]) sum={k}
ShardingRule MatMulOp::getShardingRule() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), result = getType().getShape();
  ShardingRule rule = ShardingRule::elementwise(result, /*numOperands=*/0);
  size_t rank = result.size();
  int64_t m = rank - 2, n = rank - 1;
  int64_t k = rule.addFactor(lhs[getTransposeA() ? rank - 2 : rank - 1], FactorKind::Reduction, Reduction::Sum);
  TensorFactors batch(rule.results.front().begin(), rule.results.front().end() - 2);
  TensorFactors left(batch), right(batch);
  left.append(getTransposeA() ? TensorFactors{{k}, {m}} : TensorFactors{{m}, {k}});
  right.append(getTransposeB() ? TensorFactors{{n}, {k}} : TensorFactors{{k}, {n}});
  rule.operands = {left, right};
  return rule;
}

// moments dims = [0]: ([n, c]) -> ([m, c]) expanded={n} replicated={m}, m being mean and variance
ShardingRule MomentsOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(shapeOf(getInput()), /*numOperands=*/1, /*numResults=*/0);
  TensorFactors result = {{rule.addFactor(2, FactorKind::NeedReplication)}};
  for (auto [d, factors] : llvm::enumerate(rule.operands.front())) {
    if (llvm::is_contained(getDims(), d)) {
      rule.factors[d].kind = FactorKind::Expanded;
    } else {
      result.push_back(factors);
    }
  }
  rule.results = {result};
  return rule;
}

// normalize dims = [1]: ([n, c], [c], [c], [c], [c]) -> ([n, c])
ShardingRule NormalizeOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/1);
  TensorFactors statistics;
  for (int64_t dim : getDims()) {
    statistics.push_back(rule.results.front()[dim]);
  }
  rule.operands.append(4, statistics);
  return rule;
}

ShardingRule PadOp::getShardingRule() {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = getType().getShape();
  llvm::SmallBitVector touched(from.size());
  for (size_t d = 0; d < from.size(); ++d) {
    touched[d] = from[d] != to[d] || getLow()[d] != 0 || getInterior()[d] != 0;
  }
  return dimwiseRule(getInput(), getResult(), touched);
}

// random: ([i, j], [], [], []) -> ([i, j]); seed, counter and stream are scalars.
ShardingRule RandomOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/1);
  rule.operands.resize(4);
  return rule;
}

// reduce sum dims = [0]: ([i, j]) -> ([j]) sum={i}
ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(shapeOf(getInput()), /*numOperands=*/1, /*numResults=*/0);
  TensorFactors result;
  for (auto [d, factors] : llvm::enumerate(rule.operands.front())) {
    if (llvm::is_contained(getDims(), d)) {
      rule.factors[d].kind = FactorKind::Reduction;
      rule.factors[d].reduction = getKind();
    } else {
      result.push_back(factors);
    }
  }
  rule.results = {result};
  return rule;
}

ShardingRule ReshapeOp::getShardingRule() {
  if (getType().getNumElements() != 0) {
    return ReshapeRule(shapeOf(getInput()), getType().getShape()).build();
  }
  ShardingRule rule; // nothing to split
  rule.operands.emplace_back(shapeOf(getInput()).size());
  rule.results.emplace_back(getType().getRank());
  return rule;
}

// scatter_add batch_dims = 1: ([b, i], [b, i, r]) -> ([b, v, r]) sum={i}
ShardingRule ScatterAddOp::getShardingRule() {
  ShardingRule rule;
  RowFactors factors =
      addRowFactors(rule, shapeOf(getIndices()), getType().getShape(), getBatchDims(), FactorKind::Reduction, FactorKind::PassThrough);
  rule.operands = {factors.places, factors.elements};
  rule.results = {factors.indexed};
  return rule;
}

ShardingRule SliceOp::getShardingRule() {
  ArrayRef<int64_t> from = shapeOf(getInput());
  llvm::SmallBitVector touched(from.size());
  for (size_t d = 0; d < from.size(); ++d) {
    touched[d] = getStarts()[d] != 0 || getLimits()[d] != from[d] || getSteps()[d] != 1;
  }
  return dimwiseRule(getInput(), getResult(), touched);
}

ShardingRule LogSoftmaxOp::getShardingRule() {
  return softmaxRule(*this);
}

// softmax_cross_entropy: ([i, c], [i]) -> ([i]) expanded={c}
ShardingRule SoftmaxCrossEntropyOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/2);
  rule.operands.front().push_back({rule.addFactor(shapeOf(getLogits()).back(), FactorKind::Expanded)});
  return rule;
}

ShardingRule SoftmaxOp::getShardingRule() {
  return softmaxRule(*this);
}

// transpose [1, 0]: ([i, j]) -> ([j, i])
ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(shapeOf(getInput()), /*numOperands=*/1, /*numResults=*/0);
  TensorFactors result;
  for (int64_t dim : getPermutation()) {
    result.push_back(rule.operands.front()[dim]);
  }
  rule.results = {result};
  return rule;
}

} // namespace ashlar::nn
