// SPDX-License-Identifier: Apache-2.0
//
// Ops that move elements by their place and keep all of them; labels of constraints as in nn_ops.td. The sharding rules are mirrored by
// test/passes/layout/print_sharding_rules.mlir.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/op_checks.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

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
//
// Where rows move, a dim that is all of several is blocks of elements, one for each element of the first of these.
//
//   [30] -> [6, 5]: ([i]) -> ([i, j]) window={i} replicated={j}, i=6 j=5
class ReshapeRule {
public:
  ReshapeRule(ArrayRef<int64_t> from, ArrayRef<int64_t> to, bool movesRows)
      : from(from), to(to), operand(from.size()), result(to.size()), movesRows(movesRows) {}

  ShardingRule build() {
    nextLeft();
    nextRight();
    while (left != 1 && right != 1) {
      if (movesRows && (takeBlocks(/*tensor=*/0, from, i, left, operand, to, j, right, result) ||
                        takeBlocks(/*tensor=*/1, to, j, right, result, from, i, left, operand))) {
        continue;
      }
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
    for (const WindowedDim &window : windows) {
      rule.addWindow(window.tensor, window.dim, window.size, window.access);
    }
    return std::move(rule);
  }

private:
  // Takes a dim of `wholes`, where it is all of several of `parts`; `next` and `nextPart` are behind the dims, of which `whole` and `part`
  // are left. Returns whether it is.
  bool takeBlocks(unsigned tensor, ArrayRef<int64_t> wholes, size_t next, int64_t &whole, TensorFactors &of, ArrayRef<int64_t> parts,
                  size_t &nextPart, int64_t &part, TensorFactors &ofParts) {
    size_t end = nextPart;
    int64_t product = part;
    while (product < whole && end < parts.size()) {
      product *= parts[end++];
    }
    if (whole != wholes[next - 1] || part != parts[nextPart - 1] || product != whole || part == whole) {
      return false;
    }
    passThrough(rule, part, of[next - 1], ofParts[nextPart - 1]);
    windows.push_back({tensor, static_cast<unsigned>(next - 1), whole, {whole / part, 0, whole / part}, {}});
    for (; nextPart < end; ++nextPart) {
      if (parts[nextPart] != 1) {
        ofParts[nextPart].push_back(rule.addFactor(parts[nextPart], FactorKind::NeedReplication));
      }
    }
    whole = part = 1;
    nextLeft();
    nextRight();
    return true;
  }

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
  bool movesRows;
  SmallVector<WindowedDim, 1> windows; // of the rule, once it has its tensors
};

} // namespace

ShardingRule ReshapeOp::getShardingRule() {
  if (getType().getNumElements() != 0) {
    return ReshapeRule(shapeOf(getInput()), getType().getShape(), getMovesRows()).build();
  }
  ShardingRule rule; // nothing to split
  rule.operands.emplace_back(shapeOf(getInput()).size());
  rule.results.emplace_back(getType().getRank());
  return rule;
}

// On a device the blocks are where they are needed by now.
void ReshapeOp::computeOnRuns(const llvm::SmallBitVector &, RunStartBuilder) {
  setMovesRows(false);
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

} // namespace ashlar::nn
