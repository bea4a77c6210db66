// SPDX-License-Identifier: Apache-2.0
//
// The sharding rules of attention and its gradients.

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// The factors of an attention's tensors. A causal op without positions counts rows and keys from 0: it needs all of them, or is expanded if
// that adds no sum.
struct AttentionFactors {
  template <typename Op> AttentionFactors(Op op, FactorKind rows, FactorKind keys) {
    ArrayRef<int64_t> queryShape = shapeOf(op.getQuery());
    TensorFactors batch;
    for (int64_t size : queryShape.drop_back(2)) {
      batch.push_back({rule.addFactor(size)});
    }
    auto counted = [&](FactorKind kind) {
      const bool counts = op.getCausal() && op.getPositions().empty();
      return !counts ? kind : kind == FactorKind::Reduction ? FactorKind::NeedReplication : FactorKind::Expanded;
    };
    int64_t row = rule.addFactor(queryShape.end()[-2], counted(rows));
    int64_t key = rule.addFactor(shapeOf(op.getKey()).end()[-2], counted(keys));
    int64_t width = rule.addFactor(queryShape.back(), FactorKind::NeedReplication);
    auto withBatch = [&](std::initializer_list<int64_t> factors) {
      TensorFactors tensor = batch;
      for (int64_t factor : factors) {
        tensor.push_back({factor});
      }
      return tensor;
    };
    ofQuery = withBatch({row, width});
    ofKey = withBatch({key, width});
    ofLogSum = withBatch({row});
    scores = withBatch({row, key});
    if (Value mask = op.getMask()) {
      for (auto [d, size] : llvm::enumerate(shapeOf(mask))) {
        ofMask.push_back(size == rule.factors[scores[d].front()].size ? scores[d] : TensorFactors::value_type());
      }
    }
    addIndices(op.getPositions());
  }

  // Adds the columns of the value.
  void addColumns(int64_t size, FactorKind kind) {
    int64_t column = rule.addFactor(size, kind);
    ofValue = ofKey;
    ofOut = ofQuery;
    ofValue.back() = ofOut.back() = {column};
  }

  // Adds what a dropout draws from.
  template <typename Op> void addDraw(Op op) {
    if (!op.getDraw().empty()) {
      addIndices(op.getDraw().take_front(2));
      numbers.append(3, {});
    }
  }

  // Returns the rule of an op with these operands, then the mask, positions and what a dropout draws from, where
  // there are some.
  ShardingRule finish(ArrayRef<TensorFactors> operands, const TensorFactors &result) {
    rule.operands.assign(operands.begin(), operands.end());
    if (!ofMask.empty()) {
      rule.operands.push_back(ofMask);
    }
    llvm::append_range(rule.operands, numbers);
    rule.results = {result};
    return rule;
  }

  // Adds an index of rows, then one of keys, where there are some.
  void addIndices(ValueRange indices) {
    for (auto [i, index] : llvm::enumerate(indices)) {
      TensorFactors &tensor = numbers.emplace_back();
      for (auto [d, size] : llvm::enumerate(shapeOf(index))) {
        const TensorFactors::value_type &whole = d + 2 < scores.size() ? scores[d] : scores[d + i];
        tensor.push_back(size == rule.factors[whole.front()].size ? whole : TensorFactors::value_type());
      }
    }
  }

  ShardingRule rule;
  TensorFactors ofQuery, ofKey, ofLogSum, ofValue, ofOut, scores, ofMask;
  SmallVector<TensorFactors> numbers; // of positions, and of what a dropout draws from
};

} // namespace

// attention_log_sum: ([b, r, w], [b, k, w]) -> ([b, r]) expanded={k} replicated={w}
ShardingRule AttentionLogSumOp::getShardingRule() {
  AttentionFactors f(*this, FactorKind::PassThrough, FactorKind::Expanded);
  return f.finish({f.ofQuery, f.ofKey}, f.ofLogSum);
}

// attention: ([b, r, w], [b, k, w], [b, k, c], [b, r]) -> ([b, r, c]) expanded={k} replicated={w}
ShardingRule AttentionOp::getShardingRule() {
  AttentionFactors f(*this, FactorKind::PassThrough, FactorKind::Expanded);
  f.addColumns(shapeOf(getValue()).back(), FactorKind::PassThrough);
  f.addDraw(*this);
  return f.finish({f.ofQuery, f.ofKey, f.ofValue, f.ofLogSum}, f.ofOut);
}

// attention_gradient: ([b, r, w], [b, k, w], [b, k, c], [b, r], [b, r, c], [b, r, c]) and
//   query -> ([b, r, w]) sum={k} replicated={w} sum={c}, key -> ([b, k, w]) sum={r} replicated={w} sum={c},
//   value -> ([b, k, c]) sum={r} replicated={w}.
// The gradients of scores are linear in their sums over columns.
ShardingRule AttentionGradientOp::getShardingRule() {
  const bool ofQuery = getOf() == AttentionOperand::Query, ofValue = getOf() == AttentionOperand::Value;
  AttentionFactors f(*this, ofQuery ? FactorKind::PassThrough : FactorKind::Reduction,
                     ofQuery ? FactorKind::Reduction : FactorKind::PassThrough);
  f.addColumns(shapeOf(getValue()).back(), ofValue ? FactorKind::PassThrough : FactorKind::Reduction);
  f.addDraw(*this);
  return f.finish({f.ofQuery, f.ofKey, f.ofValue, f.ofLogSum, f.ofOut, f.ofOut}, ofQuery ? f.ofQuery : ofValue ? f.ofValue : f.ofKey);
}

} // namespace ashlar::nn
