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

using ExpandedLoc = FusedLocWith<StringAttr>;

// Marks the ops before `op`, from `first` on, as its expansion.
void mark(Operation *first, Operation *op, Value expansion) {
  StringRef outer = expandedName(op).value_or(op->getName().getStringRef()); // what is expanded twice is one expansion
  for (Operation *part = first; part != op; part = part->getNextNode()) {
    auto marked = dyn_cast<ExpandedLoc>(part->getLoc());
    Location plain = marked ? marked.getLocations().front() : part->getLoc();
    StringRef name = part == expansion.getDefiningOp() ? outer : "";
    part->setLoc(FusedLoc::get(op->getContext(), {plain}, StringAttr::get(op->getContext(), name)));
  }
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
    Operation *before = op->getPrevNode();
    Value expansion = op.buildExpansion(builder);
    mark(before ? before->getNextNode() : &op->getBlock()->front(), op, expansion);
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

std::optional<StringRef> expandedName(Operation *op) {
  auto marked = dyn_cast<ExpandedLoc>(op->getLoc());
  return marked ? std::optional<StringRef>(marked.getMetadata().getValue()) : std::nullopt;
}

} // namespace ashlar::layout
