// SPDX-License-Identifier: Apache-2.0
//
// Ops that move elements by their place; labels of constraints as in nn_ops.td. The sharding rules are mirrored by
// test/passes/layout/print_sharding_rules.mlir.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/op_checks.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>

using namespace mlir;

namespace ashlar::nn {

namespace {

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

} // namespace

//===-- nn.broadcast ------------------------------------------------------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  if (static_cast<int64_t>(getDims().size()) != from.getRank()) { // C1
    return emitOpError("has ") << getDims().size() << " dims for an operand of rank " << from.getRank();
  }
  int64_t previous = -1;
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    if (dim <= previous || dim >= to.getRank()) { // C1
      return emitOpError("dims [") << getDims() << "] are not strictly increasing within rank " << to.getRank();
    }
    if (from.getDimSize(i) != to.getDimSize(dim)) { // C2
      return emitOpError("operand dim ") << i << " has size " << from.getDimSize(i) << " but result dim " << dim << " has size "
                                         << to.getDimSize(dim);
    }
    previous = dim;
  }
  return verifySameElementType(*this, from, to); // C3
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType()) {
    return getInput();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()); dense && dense.isSplat()) {
    return dense.resizeSplat(getType());
  }
  return {};
}

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

void BroadcastOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = b.sum(g[0], NnBuilder::otherDims(getDims(), getType().getRank()));
}

Tensor BroadcastOp::evaluate(ArrayRef<Tensor> operands) {
  ArrayRef<int64_t> dims = getDims();
  const Tensor &input = operands[0];
  Tensor result(getType());
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index from;
    for (int64_t dim : dims) {
      from.push_back(index[dim]);
    }
    result.copyElement(i, input, input.linearize(from));
  });
  return result;
}

//===-- nn.reshape --------------------------------------------------------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  if (from.getNumElements() != to.getNumElements()) { // C1
    return emitOpError("reshapes ") << from.getNumElements() << " elements into " << to.getNumElements();
  }
  return verifySameElementType(*this, from, to); // C2
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType()) {
    return getInput();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput())) {
    return dense.reshape(getType());
  }
  return {};
}

// reshape(reshape(x)) ==> reshape(x), but for an inner one that the model names: rules may be about it, and it moves nothing.
LogicalResult ReshapeOp::canonicalize(ReshapeOp op, PatternRewriter &rewriter) {
  auto producer = op.getInput().getDefiningOp<ReshapeOp>();
  if (!producer) {
    return rewriter.notifyMatchFailure(op, "operand is not a reshape");
  }
  if (isNamed(producer)) {
    return rewriter.notifyMatchFailure(op, "operand has a name");
  }
  rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(producer.getInput()); });
  return success();
}

namespace {

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

} // namespace

ShardingRule ReshapeOp::getShardingRule() {
  if (getType().getNumElements() != 0) {
    return ReshapeRule(shapeOf(getInput()), getType().getShape()).build();
  }
  ShardingRule rule; // nothing to split
  rule.operands.emplace_back(shapeOf(getInput()).size());
  rule.results.emplace_back(getType().getRank());
  return rule;
}

void ReshapeOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = ReshapeOp::create(b, getInput().getType(), g[0]);
}

Tensor ReshapeOp::evaluate(ArrayRef<Tensor> operands) {
  Tensor result(getType());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.copyElement(i, operands[0], i);
  }
  return result;
}

//===-- nn.transpose ------------------------------------------------------------------------------------------------------------------===//

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  if (!isPermutationVector(permutation) || static_cast<int64_t>(permutation.size()) != from.getRank()) { // C1
    return emitOptionalError(loc, "permutation [", permutation, "] is not one of ", from.getRank(), " dims");
  }
  types.push_back(from.clone(applyPermutation(from.getShape(), permutation)));
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  for (auto [i, dim] : llvm::enumerate(getPermutation())) {
    if (static_cast<int64_t>(i) != dim) {
      auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput());
      return dense && dense.isSplat() ? OpFoldResult(dense.resizeSplat(getType())) : OpFoldResult();
    }
  }
  return getInput();
}

// transpose(transpose(x)) ==> transpose(x), with the permutations composed
LogicalResult TransposeOp::canonicalize(TransposeOp op, PatternRewriter &rewriter) {
  auto producer = op.getInput().getDefiningOp<TransposeOp>();
  if (!producer) {
    return rewriter.notifyMatchFailure(op, "operand is not a transpose");
  }
  SmallVector<int64_t> composed;
  for (int64_t dim : op.getPermutation()) {
    composed.push_back(producer.getPermutation()[dim]);
  }
  auto made = rewriter.replaceOpWithNewOp<TransposeOp>(op, producer.getInput(), composed);
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return success();
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

void TransposeOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation())) {
    inverse[dim] = i;
  }
  out[0] = TransposeOp::create(b, g[0], inverse);
}

Tensor TransposeOp::evaluate(ArrayRef<Tensor> operands) {
  ArrayRef<int64_t> permutation = getPermutation();
  const Tensor &input = operands[0];
  Tensor result(getType());
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index from(index.size());
    for (auto [d, dim] : llvm::enumerate(permutation)) {
      from[dim] = index[d];
    }
    result.copyElement(i, input, input.linearize(from));
  });
  return result;
}

//===-- nn.concat ---------------------------------------------------------------------------------------------------------------------===//

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty()) { // C1
    return emitOptionalError(loc, "concat needs at least one operand");
  }
  RankedTensorType first = typeOf(adaptor.getInputs().front());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first.getRank()) { // C2
    return emitOptionalError(loc, "concat dim ", dim, " is not within rank ", first.getRank());
  }
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value input : adaptor.getInputs()) {
    RankedTensorType type = typeOf(input);
    if (type.getRank() != first.getRank() || type.getElementType() != first.getElementType()) { // C3
      return emitOptionalError(loc, "concat joins ", first, " with ", type);
    }
    for (int64_t d = 0; d < type.getRank(); ++d) {
      if (d != dim && type.getDimSize(d) != first.getDimSize(d)) { // C3
        return emitOptionalError(loc, "concat along dim ", dim, " joins ", first, " with ", type, ", which differ in dim ", d);
      }
    }
    shape[dim] = joinedSize(shape[dim], type.getDimSize(dim));
  }
  types.push_back(first.clone(shape));
  return success();
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

void ConcatOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  SmallVector<int64_t> starts(getType().getRank(), 0), limits(getType().getShape()), steps(getType().getRank(), 1);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    limits[getDim()] = starts[getDim()] + typeOf(input).getDimSize(getDim());
    out[i] = SliceOp::create(b, g[0], starts, limits, steps);
    starts[getDim()] = limits[getDim()];
  }
}

Tensor ConcatOp::evaluate(ArrayRef<Tensor> operands) {
  int64_t dim = getDim();
  Tensor result(getType());
  int64_t begin = 0;
  for (const Tensor &input : operands) {
    forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
      Index to(index);
      to[dim] += begin;
      result.copyElement(result.linearize(to), input, i);
    });
    begin += input.getShape()[dim];
  }
  return result;
}

//===-- nn.slice ----------------------------------------------------------------------------------------------------------------------===//

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits(), steps = adaptor.getSteps();
  size_t rank = from.getRank();
  if (starts.size() != rank || limits.size() != rank || steps.size() != rank) { // C1
    return emitOptionalError(loc, "slice of rank ", rank, " has ", starts.size(), " starts, ", limits.size(), " limits and ", steps.size(),
                             " steps");
  }
  SmallVector<int64_t> shape;
  for (size_t d = 0; d < rank; ++d) {
    if (starts[d] < 0 || starts[d] > limits[d] || limits[d] > from.getDimSize(d)) { // C2
      return emitOptionalError(loc, "slice [", starts[d], ", ", limits[d], ") of dim ", d, " is not within size ", from.getDimSize(d));
    }
    if (steps[d] < 1) { // C3
      return emitOptionalError(loc, "slice of dim ", d, " has step ", steps[d], ", which is not positive");
    }
    shape.push_back(llvm::divideCeil(limits[d] - starts[d], steps[d]));
  }
  types.push_back(from.clone(shape));
  return success();
}

ShardingRule SliceOp::getShardingRule() {
  ArrayRef<int64_t> from = shapeOf(getInput());
  llvm::SmallBitVector touched(from.size());
  for (size_t d = 0; d < from.size(); ++d) {
    touched[d] = getStarts()[d] != 0 || getLimits()[d] != from[d] || getSteps()[d] != 1;
  }
  return dimwiseRule(getInput(), getResult(), touched);
}

void SliceOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  SmallVector<int64_t> interior = llvm::map_to_vector(getSteps(), [](int64_t step) { return step - 1; });
  out[0] = PadOp::create(b, getInput().getType(), g[0], getStarts(), interior);
}

Tensor SliceOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(getType());
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index from(index);
    for (size_t d = 0; d < from.size(); ++d) {
      from[d] = getStarts()[d] + index[d] * getSteps()[d];
    }
    result.copyElement(i, input, input.linearize(from));
  });
  return result;
}

//===-- nn.pad ------------------------------------------------------------------------------------------------------------------------===//

LogicalResult PadOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  int64_t rank = from.getRank();
  if (to.getRank() != rank || static_cast<int64_t>(getLow().size()) != rank || static_cast<int64_t>(getInterior().size()) != rank) { // C1
    return emitOpError("has ranks ") << rank << " and " << to.getRank() << " with " << getLow().size() << " low and "
                                     << getInterior().size() << " interior entries";
  }
  for (int64_t d = 0; d < rank; ++d) {
    int64_t low = getLow()[d], interior = getInterior()[d];
    if (low < 0 || interior < 0) { // C1
      return emitOpError("has low ") << low << " and interior " << interior << " in dim " << d << "; neither may be negative";
    }
    // The last element lands at low + (size - 1) * (interior + 1).
    int64_t size = from.getDimSize(d), stride = 0;
    bool counted = size == 0 || !llvm::AddOverflow(interior, int64_t{1}, stride);
    std::optional<int64_t> last = counted ? llvm::checkedMulAdd(std::max<int64_t>(size - 1, 0), stride, low) : std::nullopt;
    if (!last || *last == std::numeric_limits<int64_t>::max()) { // C2
      return emitOpError("needs more rows in dim ") << d << " than can be counted";
    }
    int64_t needed = size == 0 ? low : *last + 1;
    if (needed > to.getDimSize(d)) { // C2
      return emitOpError("needs size ") << needed << " in dim " << d << " but the result has " << to.getDimSize(d);
    }
  }
  return verifySameElementType(*this, from, to); // C3
}

ShardingRule PadOp::getShardingRule() {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = getType().getShape();
  llvm::SmallBitVector touched(from.size());
  for (size_t d = 0; d < from.size(); ++d) {
    touched[d] = from[d] != to[d] || getLow()[d] != 0 || getInterior()[d] != 0;
  }
  return dimwiseRule(getInput(), getResult(), touched);
}

void PadOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  SmallVector<int64_t> limits, steps;
  for (auto [size, low, interior] : llvm::zip_equal(getInput().getType().getShape(), getLow(), getInterior())) {
    steps.push_back(interior + 1);
    limits.push_back(size == 0 ? low : low + (size - 1) * (interior + 1) + 1);
  }
  out[0] = SliceOp::create(b, g[0], getLow(), limits, steps);
}

Tensor PadOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  ArrayRef<int64_t> low = getLow(), interior = getInterior();
  Tensor result(getType());
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index to(index);
    for (size_t d = 0; d < to.size(); ++d) {
      to[d] = low[d] + index[d] * (interior[d] + 1);
    }
    result.copyElement(result.linearize(to), input, i);
  });
  return result;
}

} // namespace ashlar::nn
