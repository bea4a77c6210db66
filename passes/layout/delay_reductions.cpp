// SPDX-License-Identifier: Apache-2.0
//
// Each op is tried as the last one before a sum: the linear ops above it, down to the redistributions that combine terms, are a tree that
// could compute on terms. Trees are tried in program order, so that a delayed sum can be delayed again; a step must save time by itself.

#include "passes/layout/delay_reductions.h"

#include "dialects/nn/nn.h"
#include "dialects/support/op_interfaces.h"
#include "passes/layout/factor_split.h"
#include "passes/layout/linear_ops.h"

#include <vector>

using namespace mlir;

namespace ashlar::layout {

namespace {

using dist::RedistributeOp;

constexpr unsigned kMaxDepth = 16; // of a tree: keeps time linear in the program

// Time, then bytes.
struct Cost {
  int64_t timePs = 0, bytes = 0;

  Cost operator+(const Cost &other) const { return {timePs + other.timePs, bytes + other.bytes}; }
  bool operator<(const Cost &other) const { return std::pair(timePs, bytes) < std::pair(other.timePs, other.bytes); }
};

// A value as terms that are still to be combined.
struct Terms {
  Layout layout;                                   // partial
  Cost saved;                                      // of the redistributions that are left out
  SmallVector<RedistributeOp> leaves;              // they
  SmallVector<std::pair<Operation *, Layout>> ops; // that compute on terms, and the layouts of their results
};

// Delays the sums of one function.
class Delay {
public:
  Delay(dist::Planner &planner, dist::MeshAttr mesh) : planner(planner), mesh(mesh) {}

  void run(func::FuncOp function) {
    for (Operation &op : llvm::make_early_inc_range(function.front())) {
      if (op.hasAttr(dist::kExplicitAttr)) {
        continue; // the model says where its sums are combined
      }
      if (auto redistribute = dyn_cast<RedistributeOp>(op)) {
        delayInto(redistribute);
        continue;
      }
      if (auto add = dyn_cast<nn::AddOp>(op)) {
        groupTerms(add);
      }
      if (!linearOperands(&op).empty()) {
        delayBehind(&op);
      }
    }
  }

private:
  Cost cost(Value value, const Layout &from, const Layout &to) {
    const dist::Plan &plan = planner.plan(cast<RankedTensorType>(value.getType()), from, to);
    return {plan.timePs, plan.bytes};
  }

  // Returns the terms of a value that has one use; nothing when it is no sum.
  std::optional<Terms> findTerms(Value value, unsigned depth) {
    Operation *op = value.getDefiningOp();
    if (!value.hasOneUse() || depth > kMaxDepth || (op && op->hasAttr(dist::kExplicitAttr))) {
      return std::nullopt;
    }
    if (auto leaf = value.getDefiningOp<RedistributeOp>()) {
      Layout from = leaf.getFrom().getLayout(), to = leaf.getTo().getLayout();
      bool isSum = from.isPartial() && from.reduction == Reduction::Sum && !to.isPartial();
      return isSum ? std::optional<Terms>({from, cost(value, from, to), {leaf}, {}}) : std::nullopt;
    }
    return op ? findTerms(op, depth) : std::nullopt;
  }

  std::optional<Terms> findTerms(Operation *op, unsigned depth) {
    for (const SmallVector<unsigned, 2> &set : linearOperands(op)) {
      std::vector<Terms> operands;
      for (unsigned number : set) {
        std::optional<Terms> terms = findTerms(op->getOperand(number), depth + 1);
        if (!terms) {
          break;
        }
        operands.push_back(std::move(*terms));
      }
      if (operands.size() == set.size()) {
        if (std::optional<Terms> terms = combine(op, set, operands)) {
          return terms;
        }
      }
    }
    return std::nullopt;
  }

  // Returns the terms of the result of `op`, given those of the operands in `set`; nothing when the op cannot compute on them.
  std::optional<Terms> combine(Operation *op, ArrayRef<unsigned> set, ArrayRef<Terms> operands) {
    ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    const Layout &first = operands.front().layout;
    FactorSplit split = project(mesh, rule, rule.operands[set.front()], first);
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, split)) {
      if (!axes.empty() && !mayBeSplit(factor.kind)) {
        return std::nullopt;
      }
    }
    // A factor that is the minor one of a joined dim cannot be split alone: its pieces would be no run of the dim.
    auto fits = [&](const TensorFactors &tensor) {
      FactorSplit own = project(mesh, rule, tensor, unproject(tensor, split));
      return llvm::all_of(llvm::seq<size_t>(0, split.size()),
                          [&](size_t factor) { return !holdsFactor(tensor, factor) || own[factor] == split[factor]; });
    };
    if (!llvm::all_of(rule.operands, fits) || !llvm::all_of(rule.results, fits)) {
      return std::nullopt;
    }
    Terms result;
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      Layout expected = unproject(rule.operands[number], split), actual = dist::findLayout(operand.get()).getLayout();
      if (auto *found = llvm::find(set, number); found != set.end()) {
        const Terms &terms = operands[found - set.begin()];
        expected.partial = first.partial;
        expected.reduction = first.reduction;
        actual = terms.layout;
        result.saved = result.saved + terms.saved;
        llvm::append_range(result.leaves, terms.leaves);
        llvm::append_range(result.ops, terms.ops);
      }
      if (actual != expected) {
        return std::nullopt;
      }
    }
    FailureOr<SmallVector<Layout>> computed = resultLayouts(rule, split);
    if (failed(computed) || (computed->front().isPartial() && computed->front().reduction != Reduction::Sum)) {
      return std::nullopt;
    }
    result.layout = computed->front();
    llvm::append_range(result.layout.partial, first.partial);
    result.layout.partial = dist::inMeshOrder(mesh, result.layout.partial);
    result.layout.reduction = Reduction::Sum;
    result.ops.emplace_back(op, result.layout);
    return result;
  }

  // Makes the ops compute on terms.
  void apply(const Terms &terms) {
    for (RedistributeOp leaf : terms.leaves) {
      leaf.replaceAllUsesWith(leaf.getInput());
      leaf.erase();
    }
    for (auto [op, layout] : terms.ops) {
      op->setAttr(dist::kLayoutsAttr, ArrayAttr::get(op->getContext(), {dist::LayoutAttr::get(op->getContext(), layout)}));
    }
  }

  // (whole + sum) + sum ==> whole + (sum + sum): the gradient of a value with many users is added up in any order.
  void groupTerms(nn::AddOp add) {
    for (unsigned side : {0, 1}) {
      auto inner = add->getOperand(1 - side).getDefiningOp<nn::AddOp>();
      if (!inner || !inner->hasOneUse() || dist::findLayout(inner) != dist::findLayout(add) || !findTerms(add->getOperand(side), 0)) {
        continue;
      }
      bool first = findTerms(inner.getLhs(), 0).has_value();
      if (first == findTerms(inner.getRhs(), 0).has_value()) {
        continue;
      }
      Value whole = inner->getOperand(first ? 1 : 0), sum = inner->getOperand(first ? 0 : 1);
      inner->setOperands({sum, add->getOperand(side)});
      inner->moveBefore(add);
      add->setOperands({whole, inner});
      return delayBehind(inner);
    }
  }

  // Combines the terms in a redistribution that is there already.
  void delayInto(RedistributeOp op) {
    std::optional<Terms> terms = op.getInput().getDefiningOp<RedistributeOp>() ? std::nullopt : findTerms(op.getInput(), 0);
    Layout from = op.getFrom().getLayout(), to = op.getTo().getLayout();
    if (terms && !to.isPartial() && cost(op, terms->layout, to) < terms->saved + cost(op, from, to)) {
      op.setCauseAttr(terms->leaves.front().getCauseAttr());
      op.setFromAttr(dist::LayoutAttr::get(op.getContext(), terms->layout));
      apply(*terms);
    }
  }

  // Combines the terms behind an op.
  void delayBehind(Operation *op) {
    dist::LayoutAttr layout = dist::findLayout(op->getResult(0));
    std::optional<Terms> terms = layout.getLayout().isPartial() ? std::nullopt : findTerms(op, 0);
    if (!terms || !(cost(op->getResult(0), terms->layout, layout.getLayout()) < terms->saved)) {
      return;
    }
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    Value result = op->getResult(0);
    auto sum = RedistributeOp::create(builder, op->getLoc(), result.getType(), result,
                                      dist::LayoutAttr::get(op->getContext(), terms->layout), layout, terms->leaves.front().getCauseAttr());
    sum->setAttr(dist::kLayoutsAttr, builder.getArrayAttr({layout}));
    result.replaceAllUsesExcept(sum, sum);
    apply(*terms);
  }

  dist::Planner &planner;
  dist::MeshAttr mesh;
};

} // namespace

void delayReductions(func::FuncOp function, dist::Planner &planner, dist::MeshAttr mesh) {
  Delay(planner, mesh).run(function);
}

} // namespace ashlar::layout
