// SPDX-License-Identifier: Apache-2.0
//
// A softmax over a dim that is split is a maximum, a sum and element-wise ops, which can all be computed split: then devices exchange one
// number a row in place of the whole dim. An attention is one over each device's own keys, and what combines these.

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

SmallVector<SplitOp> findSplitOps(const LayoutProblem &problem, const Inference &inference) {
  // Axes that split another factor, too, are not for this one: its shards are gathered.
  auto findSplit = [&](const ProblemOp &op) -> std::optional<std::pair<int64_t, int64_t>> {
    SmallVector<FactorSplit> splits; // of each tensor
    auto values = llvm::concat<const unsigned>(op.operands, op.results);
    for (auto [tensor, value] : llvm::zip_equal(op.rule->tensors, values)) {
      splits.push_back(project(problem.mesh, *op.rule, tensor, inference.getLayout(problem.values[value].tensor)));
    }
    auto splitsOthers = [&](StringAttr axis, size_t factor) {
      return llvm::any_of(splits, [&](const FactorSplit &split) {
        return llvm::any_of(llvm::enumerate(split),
                            [&](auto item) { return item.index() != factor && llvm::is_contained(item.value(), axis); });
      });
    };
    for (const FactorSplit &split : splits) {
      for (auto [number, axes] : llvm::enumerate(split)) {
        const size_t factor = number;
        const bool isExpanded = op.rule->factors[factor].kind == FactorKind::Expanded && !axes.empty();
        if (isExpanded && llvm::none_of(axes, [&](StringAttr axis) { return splitsOthers(axis, factor); })) {
          return std::pair(static_cast<int64_t>(factor), problem.mesh.groupSize(axes));
        }
      }
    }
    return std::nullopt;
  };
  SmallVector<SplitOp> found;
  for (const ProblemOp &op : problem.ops) {
    auto expandable = dyn_cast<ExpandableOpInterface>(op.op);
    if (auto split = expandable ? findSplit(op) : std::nullopt) {
      found.push_back({expandable, split->first, split->second});
    }
  }
  return found;
}

void expand(const SplitOp &split) {
  ExpandableOpInterface op = split.op;
  OpBuilder builder(op);
  Operation *before = op->getPrevNode();
  auto combinable = dyn_cast<CombinableOpInterface>(op.getOperation());
  const bool combines = combinable && combinable.combines(split.factor, split.parts);
  Value expansion = combines ? combinable.buildCombination(builder, split.factor, split.parts) : op.buildExpansion(builder);
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
