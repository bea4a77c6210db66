// SPDX-License-Identifier: Apache-2.0
//
// The tree of a value: its root is the layout in which the value is made, the other nodes are the layouts that are wanted, the cost of an
// edge is the time of the plan from the one to the other. Each node starts from where it is reached fastest. Where these choices run in a
// circle it is opened at the node that loses least by starting from the root. With a single circle this is the optimum.

#include "passes/layout/redistribution_trees.h"

#include "passes/layout/copy_sources.h"

#include <tuple>

using namespace mlir;

namespace ashlar::layout {

namespace {

using dist::Layout;
using dist::RedistributeOp;

// Returns true for a redistribution that may start elsewhere: one that the model places is an op like others.
bool isLink(Operation *op) {
  return isa<RedistributeOp>(op) && !op->hasAttr(dist::kExplicitAttr);
}

// State: the nodes of one tree, number 0 the root, and for each the node it starts from.
class Tree {
public:
  Tree(Value root, dist::Planner &planner) : planner(planner), root(root) {
    nodes.push_back({dist::findLayout(root), nullptr});
    collect(root, /*cause=*/nullptr);
  }

  void rebuild() {
    if (all.size() < 2) {
      return;
    }
    chooseParents();
    SmallVector<Value> values(nodes.size());
    values[0] = root;
    for (size_t node = 1; node < nodes.size(); ++node) {
      place(node, values);
    }
    for (auto [same, node] : merged) {
      same.getResult().replaceAllUsesWith(values[node]);
    }
    for (RedistributeOp op : llvm::reverse(all)) { // users first
      if (op->use_empty()) {
        op->erase();
      }
    }
  }

private:
  struct Node {
    dist::LayoutAttr layout;
    RedistributeOp op; // that makes it; null for the root
  };

  // Of a plan. Among equals one with fewer collectives.
  struct Cost {
    int64_t timePs, bytes, collectives;

    bool operator<(const Cost &other) const {
      return std::tie(timePs, bytes, collectives) < std::tie(other.timePs, other.bytes, other.collectives);
    }
    Cost operator-(const Cost &other) const { return {timePs - other.timePs, bytes - other.bytes, collectives - other.collectives}; }
  };

  // Collects the redistributions below `value`. One that nothing but others uses is no node: those take over its cause.
  void collect(Value value, StringAttr cause) {
    SmallVector<RedistributeOp> below;
    for (Operation *user : value.getUsers()) {
      if (isLink(user)) {
        below.push_back(cast<RedistributeOp>(user));
      }
    }
    llvm::sort(below, [](RedistributeOp a, RedistributeOp b) { return a->isBeforeInBlock(b); });
    for (RedistributeOp op : below) {
      all.push_back(op);
      if (cause) {
        op.setCauseAttr(cause);
      }
      bool isWanted = !llvm::all_of(op->getUsers(), isLink);
      if (isWanted) {
        addNode(op);
      }
      collect(op, isWanted ? StringAttr() : op.getCauseAttr());
    }
  }

  // Adds the layout of `op`, unless it is there: then its users take that.
  void addNode(RedistributeOp op) {
    auto *same = llvm::find_if(nodes, [&](const Node &node) { return node.layout == op.getTo(); });
    if (same == nodes.end()) {
      nodes.push_back({op.getTo(), op});
    } else {
      merged.emplace_back(op, same - nodes.begin());
    }
  }

  // Returns what it costs to take the value from one node to another; nothing when that is not possible.
  std::optional<Cost> cost(size_t from, size_t to) {
    Layout source = nodes[from].layout.getLayout(), target = nodes[to].layout.getLayout();
    auto isPartial = [&](StringAttr axis) { return llvm::is_contained(source.partial, axis); };
    if (!llvm::all_of(target.partial, isPartial) || (target.isPartial() && source.reduction != target.reduction)) {
      return std::nullopt;
    }
    const dist::Plan &plan = planner.plan(cast<RankedTensorType>(root.getType()), source, target);
    auto isCollective = [](const dist::Step &step) { return step.kind != CollectiveKind::Slice; };
    return Cost{plan.timePs, plan.bytes, llvm::count_if(plan.steps, isCollective)};
  }

  void chooseParents() {
    parents.assign(nodes.size(), 0);
    for (size_t node = 1; node < nodes.size(); ++node) {
      Cost best = *cost(0, node);
      for (size_t other = 1; other < nodes.size(); ++other) {
        std::optional<Cost> found = other == node ? std::nullopt : cost(other, node);
        if (found && *found < best) {
          best = *found;
          parents[node] = other;
        }
      }
    }
    for (size_t node = 1; node < nodes.size(); ++node) {
      openCircle(node);
    }
  }

  // Opens the circle through `node`, if there is one.
  void openCircle(size_t node) {
    SmallVector<size_t> circle = {node};
    while (parents[circle.back()] != node) {
      circle.push_back(parents[circle.back()]);
      if (circle.back() == 0 || circle.size() > nodes.size()) {
        return;
      }
    }
    auto loss = [&](size_t member) { return *cost(0, member) - *cost(parents[member], member); };
    llvm::sort(circle); // of equals the first
    parents[*llvm::min_element(circle, [&](size_t a, size_t b) { return loss(a) < loss(b); })] = 0;
  }

  // Puts the redistribution of a node behind that of its parent.
  Value place(size_t node, SmallVectorImpl<Value> &values) {
    if (values[node]) {
      return values[node];
    }
    Value source = place(parents[node], values);
    RedistributeOp op = nodes[node].op;
    op.getInputMutable().assign(source);
    op.setFromAttr(nodes[parents[node]].layout);
    if (Operation *maker = source.getDefiningOp()) {
      op->moveAfter(maker);
    } else {
      op->moveBefore(&op->getBlock()->front());
    }
    return values[node] = op;
  }

  dist::Planner &planner;
  Value root;
  SmallVector<Node> nodes;
  SmallVector<std::pair<RedistributeOp, size_t>> merged; // into the node of the same layout
  SmallVector<RedistributeOp> all;                       // each before those that start from it
  SmallVector<size_t> parents;
};

// Makes a constant or an index again in the other layout: nothing is sent for what every device knows.
void remake(RedistributeOp op) {
  Operation *source = op.getInput().getDefiningOp();
  if (!isLink(op) || !source || !isSource(source) || source->getNumResults() != 1) {
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

void shareRedistributions(func::FuncOp function, dist::Planner &planner) {
  SmallVector<Value> roots(function.getArguments());
  for (Operation &op : function.front()) {
    if (!isLink(&op)) {
      llvm::append_range(roots, op.getResults());
    }
  }
  for (Value root : roots) {
    Tree(root, planner).rebuild();
  }
  for (auto op : llvm::make_early_inc_range(function.front().getOps<RedistributeOp>())) {
    remake(op);
  }
}

} // namespace ashlar::layout
