// SPDX-License-Identifier: Apache-2.0
//
// Folds and canonicalizations of nn ops: identities only, so that no number changes.

#include "dialects/nn/nn.h"

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

// Returns true when the model names the result of the op: then it stays even where it computes nothing, since rules may be about it.
bool isNamed(Operation *op) {
  return op->hasAttr(kOutputsAttr);
}

} // namespace

OpFoldResult ConstantOp::fold(FoldAdaptor) {
  return getValue();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

OpFoldResult BitcastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  return !isNamed(*this) && isNeutralZero(adaptor.getRhs(), /*subtracted=*/false) ? OpFoldResult(getLhs()) : OpFoldResult();
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  return !isNamed(*this) && isNeutralZero(adaptor.getRhs(), /*subtracted=*/true) ? OpFoldResult(getLhs()) : OpFoldResult();
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (!isNamed(*this) && isSplat(adaptor.getLhs(), 1)) { // only where both are constants: else the constant stands on the right
    return getRhs();
  }
  return !isNamed(*this) && isSplat(adaptor.getRhs(), 1) ? OpFoldResult(getLhs()) : OpFoldResult();
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  return !isNamed(*this) && isSplat(adaptor.getRhs(), 1) ? OpFoldResult(getLhs()) : OpFoldResult();
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

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  return getDims().empty() ? OpFoldResult(getInput()) : OpFoldResult();
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

} // namespace ashlar::nn
