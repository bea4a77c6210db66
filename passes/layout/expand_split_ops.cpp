// SPDX-License-Identifier: Apache-2.0
//
// A softmax over a dim that is split is a maximum, a sum and element-wise ops, which can all be computed split: then devices exchange one
// number a row in place of the whole dim.

#include "passes/layout/expand_split_ops.h"

#include "dialects/support/op_interfaces.h"
#include "passes/layout/factor_split.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

// Returns true when a tensor is split on a factor for which the op has an expansion.
bool isSplitWhereExpanded(MeshAttr mesh, const ShardingRule &rule, const TensorFactors &tensor, Value value) {
  FactorSplit split = project(mesh, rule, tensor, dist::findLayout(value).getLayout());
  return llvm::any_of(llvm::zip_equal(rule.factors, split), [](auto item) {
    auto &[factor, axes] = item;
    return factor.kind == FactorKind::Expanded && !axes.empty();
  });
}

bool isSplitWhereExpanded(MeshAttr mesh, ShardingRuleOpInterface op) {
  ShardingRule rule = op.getShardingRule();
  auto isSplit = [&](auto item) { return isSplitWhereExpanded(mesh, rule, std::get<0>(item), std::get<1>(item)); };
  return llvm::any_of(llvm::zip_equal(rule.operands, op->getOperands()), isSplit) ||
         llvm::any_of(llvm::zip_equal(rule.results, op->getResults()), isSplit);
}

} // namespace

bool expandSplitOps(ModuleOp module, MeshAttr mesh) {
  SmallVector<ExpandableOpInterface> split;
  module.walk([&](ExpandableOpInterface op) {
    if (isSplitWhereExpanded(mesh, cast<ShardingRuleOpInterface>(op.getOperation()))) {
      split.push_back(op);
    }
  });
  for (ExpandableOpInterface op : split) {
    OpBuilder builder(op);
    Value expansion = op.buildExpansion(builder);
    for (StringRef name : {dist::kLayoutsAttr, dist::kOriginsAttr}) {
      if (Attribute attribute = op->getAttr(name)) {
        expansion.getDefiningOp()->setAttr(name, attribute);
      }
    }
    op->getResult(0).replaceAllUsesWith(expansion);
    op->erase();
  }
  return !split.empty();
}

} // namespace ashlar::layout
