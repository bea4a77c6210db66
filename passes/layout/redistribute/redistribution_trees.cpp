// SPDX-License-Identifier: Apache-2.0
//
// The tree of a value: its root is the layout in which the value is made, the other nodes are the layouts that are wanted, the cost of an
// edge is the time of the plan from the one to the other. Each node starts from where it is reached fastest. Where these choices run in a
// circle it is opened at the node that loses least by starting from the root. With a single circle this is the optimum.

#include "passes/layout/redistribute/decide.h"

#include "llvm/ADT/STLExtras.h"

#include <tuple>

using namespace mlir;

namespace ashlar::layout {

namespace {

// State: the nodes of one tree, number 0 the root, and for each the node it starts from.
class Tree {
public:
  Tree(RankedTensorType type, const Holdings &old, analysis::Planner &planner) : planner(planner), type(type), old(old) {
    nodes.push_back(old.front());
    nodes.front().children.clear();
    collect(old.front(), /*cause=*/nullptr);
  }

  // Returns the layouts that are wanted of the value, each where it is reached fastest.
  Holdings rebuild() {
    chooseParents();
    placed.assign(nodes.size(), false);
    for (size_t node = 1; node < nodes.size(); ++node) {
      place(node);
    }
    return std::move(nodes);
  }

private:
  // Of a plan. Among equals one with fewer collectives.
  struct Cost {
    int64_t timePs, bytes, collectives;

    bool operator<(const Cost &other) const {
      return std::tie(timePs, bytes, collectives) < std::tie(other.timePs, other.bytes, other.collectives);
    }
    Cost operator-(const Cost &other) const { return {timePs - other.timePs, bytes - other.bytes, collectives - other.collectives}; }
  };

  // Collects the layouts below a holding. One that nothing but others starts from is no node: those take over its cause.
  void collect(const Holding &above, dist::EndAttr cause) {
    for (unsigned child : above.children) {
      Holding node = old[child];
      node.cause = cause ? cause : node.cause;
      bool isWanted = !node.uses.empty();
      if (isWanted) {
        addNode(node);
      }
      collect(old[child], isWanted ? dist::EndAttr() : node.cause);
    }
  }

  // Adds a layout, unless it is there: then its users take that.
  void addNode(const Holding &node) {
    auto same = llvm::find_if(nodes, [&](const Holding &other) { return other.layout == node.layout; });
    if (same != nodes.end()) {
      llvm::append_range(same->uses, node.uses);
      return;
    }
    nodes.push_back(node);
    nodes.back().children.clear();
  }

  // Returns what it costs to take the value from one node to another; nothing when that is not possible.
  std::optional<Cost> cost(size_t from, size_t to) {
    Layout source = nodes[from].layout.getLayout(), target = nodes[to].layout.getLayout();
    auto isPartial = [&](StringAttr axis) { return llvm::is_contained(source.partial, axis); };
    if (!llvm::all_of(target.partial, isPartial) || (target.isPartial() && source.reduction != target.reduction)) {
      return std::nullopt;
    }
    const analysis::Plan &plan = planner.plan(type, source, target);
    auto isCollective = [](const analysis::Step &step) { return step.kind != CollectiveKind::Slice; };
    return Cost{plan.timePs, plan.bytes, llvm::count_if(plan.steps, isCollective)};
  }

  void chooseParents() {
    for (size_t node = 1; node < nodes.size(); ++node) {
      Cost best = *cost(0, node);
      nodes[node].parent = 0;
      for (size_t other = 1; other < nodes.size(); ++other) {
        std::optional<Cost> found = other == node ? std::nullopt : cost(other, node);
        if (found && *found < best) {
          best = *found;
          nodes[node].parent = other;
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
    while (nodes[circle.back()].parent != node) {
      circle.push_back(nodes[circle.back()].parent);
      if (circle.back() == 0 || circle.size() > nodes.size()) {
        return;
      }
    }
    auto loss = [&](size_t member) { return *cost(0, member) - *cost(nodes[member].parent, member); };
    llvm::sort(circle); // of equals the first
    nodes[*llvm::min_element(circle, [&](size_t a, size_t b) { return loss(a) < loss(b); })].parent = 0;
  }

  // Puts a node right behind its parent.
  void place(size_t node) {
    if (node == 0 || placed[node]) {
      return;
    }
    placed[node] = true;
    place(nodes[node].parent);
    SmallVectorImpl<unsigned> &siblings = nodes[nodes[node].parent].children;
    siblings.insert(siblings.begin(), node);
  }

  analysis::Planner &planner;
  RankedTensorType type;
  const Holdings &old;
  Holdings nodes;
  std::vector<bool> placed;
};

} // namespace

void shareRedistributions(const LayoutProblem &problem, Assignment &assignment, analysis::Planner &planner) {
  for (auto [number, holdings] : llvm::enumerate(assignment.values)) {
    unsigned redistributions = 0;
    assignment.forEachRedistribution(number, [&](unsigned) { ++redistributions; });
    if (redistributions < 2) {
      continue;
    }
    holdings = Tree(problem.tensors[problem.values[number].tensor].type, holdings, planner).rebuild();
    for (auto [place, holding] : llvm::enumerate(holdings)) {
      for (Use use : holding.uses) {
        assignment.inputs[use.op][use.operand] = {static_cast<unsigned>(number), static_cast<unsigned>(place)};
      }
    }
  }
}

} // namespace ashlar::layout
