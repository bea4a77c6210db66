// SPDX-License-Identifier: Apache-2.0
//
// A softmax over a dim that is split is a maximum, a sum and element-wise ops, which can all be computed split: then devices exchange one
// number a row in place of the whole dim.

#include "passes/layout/inference/expand_split_ops.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

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

SmallVector<ExpandableOpInterface> findSplitOps(const LayoutProblem &problem, const Inference &inference) {
  auto isSplit = [&](const ProblemOp &op, const TensorFactors &tensor, unsigned value) {
    FactorSplit split = project(problem.mesh, *op.rule, tensor, inference.getLayout(problem.values[value].tensor));
    return llvm::any_of(llvm::zip_equal(op.rule->factors, split), [](auto item) {
      auto &[factor, axes] = item;
      return factor.kind == FactorKind::Expanded && !axes.empty();
    });
  };
  SmallVector<ExpandableOpInterface> found;
  for (const ProblemOp &op : problem.ops) {
    auto expandable = dyn_cast<ExpandableOpInterface>(op.op);
    auto values = llvm::concat<const unsigned>(op.operands, op.results);
    if (expandable && llvm::any_of(llvm::zip_equal(op.rule->tensors, values), [&](auto item) {
          auto [tensor, value] = item;
          return isSplit(op, tensor, value);
        })) {
      found.push_back(expandable);
    }
  }
  return found;
}

void expand(ExpandableOpInterface op) {
  OpBuilder builder(op);
  Operation *before = op->getPrevNode();
  Value expansion = op.buildExpansion(builder);
  mark(before ? before->getNextNode() : &op->getBlock()->front(), op, expansion);
  for (StringRef name : {dist::kLayoutsAttr, dist::kOpensAttr, dist::kPrioritiesAttr, dist::kOriginsAttr, dist::kSuggestedAttr}) {
    if (Attribute attribute = op->getAttr(name)) {
      expansion.getDefiningOp()->setAttr(name, attribute);
    }
  }
  op->getResult(0).replaceAllUsesWith(expansion);
  op->erase();
}

std::optional<StringRef> expandedName(Operation *op) {
  auto marked = dyn_cast<ExpandedLoc>(op->getLoc());
  return marked ? std::optional<StringRef>(marked.getMetadata().getValue()) : std::nullopt;
}

} // namespace ashlar::layout
