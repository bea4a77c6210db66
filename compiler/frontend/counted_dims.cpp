// SPDX-License-Identifier: Apache-2.0
//
// Follows counted dims through the ops that handlers made.

#include "compiler/frontend/counted_dims.h"

#include "dialects/nn/repeat.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Returns the one factor of a dim that the op passes through, element by element; nothing for another dim.
std::optional<int64_t> passedFactor(const ShardingRule &rule, const TensorFactors &tensor, int64_t dim) {
  if (tensor[dim].size() != 1) {
    return std::nullopt;
  }
  int64_t factor = tensor[dim].front();
  bool isWindowed = llvm::any_of(rule.windows, [&](const WindowedDim &window) { return rule.factorOf(window) == factor; });
  return rule.factors[factor].kind == FactorKind::PassThrough && !isWindowed ? std::optional(factor) : std::nullopt;
}

// Whether a value is what it would be for any size of a dim, in the elements that are there: repeated along the dim, or computed from the
// index. A tensor of data is not: it has as many elements as it has, and ONNX lets it meet a counted dim only if they are as many.
bool fitsAnySize(Value value, int64_t dim) {
  SmallVector<std::pair<Value, int64_t>> pending = {{value, dim}};
  DenseSet<std::pair<Value, int64_t>> seen;
  while (!pending.empty()) {
    auto [next, along] = pending.pop_back_val();
    if (!seen.insert({next, along}).second) {
      continue;
    }
    Operation *op = next.getDefiningOp();
    ElementsAttr constant;
    if (op && matchPattern(op, m_Constant(&constant))) {
      if (!constant.isSplat()) {
        return false;
      }
      continue;
    }
    auto sharded = op && isMemoryEffectFree(op) ? dyn_cast<ShardingRuleOpInterface>(op) : ShardingRuleOpInterface();
    if (!sharded) {
      return false;
    }
    ShardingRule rule = sharded.getShardingRule();
    std::optional<int64_t> factor = passedFactor(rule, rule.results[cast<OpResult>(next).getResultNumber()], along);
    if (!factor) {
      return false;
    }
    for (auto [operand, factors] : llvm::zip_equal(op->getOperands(), rule.operands)) {
      for (auto [d, own] : llvm::enumerate(factors)) {
        if (llvm::is_contained(own, *factor)) {
          pending.push_back({operand, static_cast<int64_t>(d)});
        }
      }
    }
  }
  return true;
}

} // namespace

void CountedDims::declare(Value value, int64_t dim, Value count) {
  SmallVector<Value, 4> &own = counts[value];
  own.resize(typeOf(value).getRank());
  own[dim] = count;
}

void CountedDims::settle(Value value, int64_t dim) {
  if (auto found = counts.find(value); found != counts.end()) {
    found->second[dim] = Value();
    if (llvm::none_of(found->second, [](Value count) { return static_cast<bool>(count); })) {
      counts.erase(found);
    }
  }
}

ArrayRef<Value> CountedDims::of(Value value) const {
  auto found = counts.find(value);
  return found == counts.end() ? ArrayRef<Value>() : ArrayRef<Value>(found->second);
}

std::optional<CountedDims::Fault> CountedDims::advance(Block &block) {
  std::optional<Fault> first;
  const bool isApart = bodies.empty() ? last && last->getBlock() != &block : bodies.back().first != &block;
  if (counts.empty() || isApart || block.empty()) { // the block of a known node (known_node.h) has constants alone, and goes away
    return first;
  }
  for (Operation *op = last ? last->getNextNode() : &block.front(); op; op = op->getNextNode()) {
    if (!isa<nn::RepeatOp>(op) && llvm::any_of(op->getOperands(), [&](Value operand) { return counts.contains(operand); })) {
      std::optional<Fault> fault = follow(op);
      first = first ? first : fault;
    }
    last = op;
  }
  return first;
}

void CountedDims::enter(Block &body) {
  bodies.push_back({&body, last});
  last = nullptr;
}

void CountedDims::leave() {
  last = bodies.pop_back_val().second;
}

std::optional<CountedDims::Fault> CountedDims::follow(Operation *op) {
  struct Passed {
    Value operand;
    int64_t dim;
    Value count;
  };
  llvm::SmallDenseMap<int64_t, Passed> passed; // by factor
  auto fault = [](const Passed &from, const Twine &why) { return Fault{from.operand, from.dim, why.str()}; };
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  ShardingRule rule = sharded ? sharded.getShardingRule() : ShardingRule();
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    for (auto [d, count] : llvm::enumerate(of(operand))) {
      if (!count) {
        continue;
      }
      const Passed own{operand, static_cast<int64_t>(d), count};
      std::optional<int64_t> factor = sharded ? passedFactor(rule, rule.operands[i], own.dim) : std::nullopt;
      if (!factor) {
        return fault(own, kMixes);
      }
      if (passed.try_emplace(*factor, own).first->second.count != count) {
        return fault(own, "joins them with a tensor that has another count of elements there");
      }
    }
  }
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    ArrayRef<Value> own = of(operand);
    for (auto [d, factors] : llvm::enumerate(rule.operands[i])) {
      for (int64_t factor : factors) {
        auto found = passed.find(factor);
        if (found != passed.end() && (own.empty() || !own[d]) && !fitsAnySize(operand, static_cast<int64_t>(d))) {
          return fault(found->second, "joins them with a tensor that always has " + Twine(shapeOf(operand)[d]) + " elements there");
        }
      }
    }
  }
  for (auto [result, dims] : llvm::zip_equal(op->getResults(), rule.results)) {
    for (auto [d, factors] : llvm::enumerate(dims)) {
      for (int64_t factor : factors) {
        auto found = passed.find(factor);
        if (found != passed.end() && factors.size() > 1) {
          return fault(found->second, kMixes);
        }
        if (found != passed.end()) {
          declare(result, static_cast<int64_t>(d), found->second.count);
        }
      }
    }
  }
  return std::nullopt;
}

} // namespace ashlar::frontend
