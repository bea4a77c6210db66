// SPDX-License-Identifier: Apache-2.0
//
// Simplifications of redistributions; each leaves the values of all other ops as they are.

#include "passes/layout/simplify_redistributions.h"

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::layout {

bool addsPartialSums(Operation *op) {
  if (!isa<nn::AddOp>(op)) {
    return false;
  }
  dist::LayoutAttr layout = dist::findLayout(op->getResult(0));
  return layout && layout.getLayout().isPartial() && layout.getReduction() == dist::Reduction::Sum &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return dist::findLayout(operand) == layout; });
}

namespace {

// Adds before combining. Program order takes care of longer sums: the operand of a later add is a redistribution again.
void mergeSum(nn::AddOp add) {
  auto lhs = add.getLhs().getDefiningOp<dist::RedistributeOp>(), rhs = add.getRhs().getDefiningOp<dist::RedistributeOp>();
  if (!lhs || !rhs || lhs == rhs || !lhs->hasOneUse() || !rhs->hasOneUse() || lhs.getFrom() != rhs.getFrom() ||
      lhs.getTo() != rhs.getTo()) {
    return;
  }
  dist::Layout from = lhs.getFrom().getLayout(), to = lhs.getTo().getLayout();
  if (!from.isPartial() || from.reduction != dist::Reduction::Sum || to.isPartial() || dist::findLayout(add) != lhs.getTo()) {
    return;
  }
  add.getLhsMutable().assign(lhs.getInput());
  add.getRhsMutable().assign(rhs.getInput());
  add->setAttr(dist::kLayoutsAttr, ArrayAttr::get(add.getContext(), {lhs.getFrom()}));
  lhs.getInputMutable().assign(add);
  lhs->moveAfter(add);
  add.getResult().replaceAllUsesExcept(lhs, lhs);
  rhs.erase();
}

// Skips the layout between two redistributions where nothing else needs it.
void compose(dist::RedistributeOp outer) {
  auto inner = outer.getInput().getDefiningOp<dist::RedistributeOp>();
  if (!inner || !inner->hasOneUse()) {
    return;
  }
  outer.getInputMutable().assign(inner.getInput());
  outer.setFromAttr(inner.getFromAttr());
  outer.setCauseAttr(inner.getCauseAttr());
  inner.erase();
  if (outer.getFrom() == outer.getTo()) {
    outer.replaceAllUsesWith(outer.getInput());
    outer.erase();
  }
}

// Makes a constant or an index again in the other layout: nothing is sent for what every device knows.
void remake(dist::RedistributeOp op) {
  Operation *source = op.getInput().getDefiningOp();
  if (!source || !isa<ShardingRuleOpInterface>(source) || source->getNumOperands() != 0 || source->getNumResults() != 1) {
    return;
  }
  Operation *made = OpBuilder(source).clone(*source);
  made->setAttr(dist::kLayoutsAttr, ArrayAttr::get(op.getContext(), {op.getTo()}));
  op.replaceAllUsesWith(made->getResult(0));
  op.erase();
  if (source->use_empty()) {
    source->erase();
  }
}

} // namespace

void simplifyRedistributions(func::FuncOp function) {
  for (auto add : llvm::make_early_inc_range(function.front().getOps<nn::AddOp>())) {
    mergeSum(add);
  }
  for (auto outer : llvm::make_early_inc_range(function.front().getOps<dist::RedistributeOp>())) {
    compose(outer);
  }
  for (auto op : llvm::make_early_inc_range(function.front().getOps<dist::RedistributeOp>())) {
    remake(op);
  }
}

} // namespace ashlar::layout
