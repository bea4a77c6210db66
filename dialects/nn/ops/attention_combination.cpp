// SPDX-License-Identifier: Apache-2.0
//
// Attention over parts of its keys: the log-sum-exp of all keys is that of the parts' log-sum-exps l_i, and the result is the sum of the
// parts' results, each times exp(l_i - l). The ops on parts have a dim of parts behind their batch dims. A part of which a row sees no key
// has l_i = -infinity and a result that is NaN, which counts 0 times, unless the row sees no key at all.

#include "dialects/nn/ops/attention_scores.h"
#include "dialects/nn/ops/nn_builder.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// Operands of an attention whose keys are cut into parts.
class KeyParts {
public:
  template <typename Op>
  KeyParts(NnBuilder &b, Op op, int64_t parts)
      : b(b), parts(parts), dim(typeOf(op.getQuery()).getRank() - 2), query(repeat(op.getQuery())), key(cut(op.getKey())),
        mask(op.getMask() ? cutMask(op.getMask()) : Value()), positions(cutIndices(op.getPositions())) {}

  // Returns a tensor (batch..., more) for all parts: (batch..., parts, more).
  Value repeat(Value x) {
    SmallVector<int64_t> shape(shapeOf(x));
    shape.insert(shape.begin() + dim, parts);
    return b.broadcastAlong(x, {dim}, shape);
  }

  // Returns a tensor (batch..., keys, more) by parts: (batch..., parts, keys / parts, more).
  Value cut(Value x) {
    SmallVector<int64_t> shape(shapeOf(x));
    shape[dim] /= parts;
    shape.insert(shape.begin() + dim, parts);
    return ReshapeOp::create(b, typeOf(x).clone(shape), x);
  }

  // Returns indices of rows and of keys; those of rows are the same for all parts.
  SmallVector<Value> cutIndices(ValueRange indices) {
    SmallVector<Value> all(indices);
    if (!all.empty()) {
      SmallVector<int64_t> shape(shapeOf(all[0]));
      shape.insert(shape.begin() + dim, 1);
      all[0] = ReshapeOp::create(b, typeOf(all[0]).clone(shape), all[0]);
      all[1] = cut(all[1]);
    }
    return all;
  }

  // Returns the log-sum-exps of the parts, (batch..., parts, rows).
  template <typename Op> Value logSums(Op op) {
    return AttentionLogSumOp::create(b, query, key, mask, op.getScale(), op.getCausal(), op.getDiagonal(), op.getWindow(), op.getSoftcap(),
                                     positions);
  }

  NnBuilder &b;
  const int64_t parts, dim; // the dim of parts
  Value query, key, mask;
  SmallVector<Value> positions;

private:
  // (batch..., rows, keys) ==> (batch..., parts, rows, keys / parts), where each dim may be 1 as well.
  Value cutMask(Value x) {
    SmallVector<int64_t> shape(shapeOf(x));
    if (shape.back() == 1) {
      shape.insert(shape.begin() + dim, 1);
      return ReshapeOp::create(b, typeOf(x).clone(shape), x);
    }
    const int64_t rows = shape[dim];
    shape.back() /= parts;
    shape.insert(rows == 1 ? shape.begin() + dim : shape.end() - 1, parts);
    Value apart = ReshapeOp::create(b, typeOf(x).clone(shape), x);
    if (rows == 1) {
      return apart;
    }
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(shape.size())));
    std::swap(order.end()[-3], order.end()[-2]);
    return TransposeOp::create(b, apart, order);
  }
};

// Keys are the factor behind the batch dims and the rows. Without positions, a causal op counts keys from 0.
template <typename Op> bool combinesKeys(Op op, int64_t factor, int64_t parts) {
  RankedTensorType key = typeOf(op.getKey());
  const int64_t keys = rowsOf(key);
  const bool counts = op.getCausal() && op.getPositions().empty();
  return factor == key.getRank() - 1 && !counts && parts > 1 && keys != 0 && keys % parts == 0;
}

} // namespace

bool AttentionLogSumOp::combines(int64_t factor, int64_t parts) {
  return combinesKeys(*this, factor, parts);
}

Value AttentionLogSumOp::buildCombination(OpBuilder &builder, int64_t /*factor*/, int64_t parts) {
  NnBuilder b(*this, builder);
  KeyParts cut(b, *this, parts);
  return b.logSumExp(cut.logSums(*this), cut.dim);
}

bool AttentionOp::combines(int64_t factor, int64_t parts) {
  return combinesKeys(*this, factor, parts);
}

Value AttentionOp::buildCombination(OpBuilder &builder, int64_t /*factor*/, int64_t parts) {
  NnBuilder b(*this, builder);
  KeyParts cut(b, *this, parts);
  Value logSums = cut.logSums(*this);
  SmallVector<Value> draw = cut.cutIndices(getDraw().take_front(getDraw().empty() ? 0 : 2));
  llvm::append_range(draw, getDraw().drop_front(draw.size()));
  SmallVector<int64_t> shape(shapeOf(getResult()));
  shape.insert(shape.begin() + cut.dim, parts);
  Value results = AttentionOp::create(b, getType().clone(shape), cut.query, cut.key, cut.cut(getValue()), logSums, cut.mask, getScale(),
                                      getCausal(), getDiagonal(), getWindow(), getSoftcap(), cut.positions, draw, getDropout());
  Value shares = ExpOp::create(b, b.sub(logSums, cut.repeat(getLogSum())));
  Value weights = b.broadcastAlong(shares, {typeOf(results).getRank() - 1}, shape);
  Value isNone = b.compare(Predicate::Eq, weights, 0);
  Value terms = b.zeroOrSelect(isNone, b.mul(b.as(weights, results), weights));
  return b.sum(b.as(getResult(), terms), {cut.dim});
}

} // namespace ashlar::nn
