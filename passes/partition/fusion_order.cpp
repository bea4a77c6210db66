// SPDX-License-Identifier: Apache-2.0
//
// Groups are nodes of a graph, and so is every other op. Its topological order that stays closest to the program is the new program; where
// there is none, a cycle leads through two members of a group.

#include "passes/partition/fusion_order.h"

#include "dialects/dist/reasons.h"
#include "dialects/nn/nn.h"

#include "llvm/ADT/TypeSwitch.h"

#include <queue>

using namespace mlir;

namespace ashlar::partition {

namespace {

// An op, or a group.
struct Node {
  SmallVector<Operation *, 1> ops; // in program order
  const CollectiveGroup *group = nullptr;
  unsigned place = 0;                  // of the last op in the program
  SmallVector<unsigned> before, after; // nodes, itself where members of a group need each other
};

class Graph {
public:
  Graph(Block &block, ArrayRef<CollectiveGroup> groups, const FusionOrder &order) : order(order) {
    DenseMap<Operation *, const CollectiveGroup *> groupOf;
    for (const CollectiveGroup &group : groups) {
      for (dist::CollectiveOpInterface member : group.members) {
        groupOf[member] = &group;
      }
    }
    DenseMap<const CollectiveGroup *, unsigned> known;
    for (auto [place, op] : llvm::enumerate(block.without_terminator())) {
      const CollectiveGroup *group = groupOf.lookup(&op);
      auto [found, isNew] = group ? known.try_emplace(group, nodes.size()) : std::pair(known.end(), true);
      if (isNew) {
        nodes.push_back({{}, group, 0, {}, {}});
      }
      unsigned number = isNew ? nodes.size() - 1 : found->second;
      numbers[&op] = number;
      nodes[number].ops.push_back(&op);
      nodes[number].place = place;
    }
    for (Node &node : nodes) {
      for (Operation *op : node.ops) {
        for (Operation *before : order.predecessors(op)) {
          nodes[numbers.at(before)].after.push_back(&node - nodes.data());
          node.before.push_back(numbers.at(before));
        }
      }
    }
  }

  // Returns the nodes in order; fewer than there are when groups need each other.
  std::vector<unsigned> sort() const {
    auto isLater = [&](unsigned a, unsigned b) { return nodes[a].place > nodes[b].place; };
    std::priority_queue<unsigned, std::vector<unsigned>, decltype(isLater)> ready(isLater);
    std::vector<size_t> missing;
    std::vector<unsigned> sorted;
    for (auto [number, node] : llvm::enumerate(nodes)) {
      missing.push_back(node.before.size());
      if (node.before.empty()) {
        ready.push(number);
      }
    }
    while (!ready.empty()) {
      unsigned next = ready.top();
      ready.pop();
      sorted.push_back(next);
      for (unsigned after : nodes[next].after) {
        if (--missing[after] == 0) {
          ready.push(after);
        }
      }
    }
    return sorted;
  }

  // Reports two members of a group of which one needs the result of the other. Assumes that sort() left nodes out.
  LogicalResult reportCycle(ArrayRef<unsigned> sorted) const {
    llvm::DenseSet<unsigned> done(sorted.begin(), sorted.end());
    auto isLeft = [&](unsigned number) { return !done.contains(number); };
    // Every node that is left needs one that is left, so going back leads into a cycle.
    unsigned at = *llvm::find_if(llvm::seq<unsigned>(0, nodes.size()), isLeft);
    SmallVector<unsigned> way;
    while (!llvm::is_contained(way, at)) {
      way.push_back(at);
      at = *llvm::find_if(nodes[at].before, isLeft);
    }
    ArrayRef<unsigned> cycle = ArrayRef(way).drop_front(llvm::find(way, at) - way.begin()); // each needs the next one, the last the first
    auto hasId = [&](unsigned number) { return nodes[number].group && nodes[number].group->fusion.getMode() == dist::FusionMode::Id; };
    bool anyId = llvm::any_of(cycle, hasId); // an id can be changed, a bucket not
    for (size_t i = 0; i < cycle.size(); ++i) {
      const Node &node = nodes[cycle[i]];
      if (!node.group || (anyId && !hasId(cycle[i]))) {
        continue;
      }
      Operation *needs = memberThat(node, [&](Operation *op) { return needsOf(op, cycle[(i + 1) % cycle.size()]); });
      unsigned user = cycle[(i + cycle.size() - 1) % cycle.size()];
      Operation *needed = memberThat(node, [&](Operation *op) { return isNeededBy(op, user); });
      if (needs != needed || cycle.size() == 1) {
        return report(node, cycle.size() == 1 ? lastOf(node) : needs, needed, cycle);
      }
    }
    llvm_unreachable("without groups there is no cycle");
  }

  std::vector<Node> nodes;

private:
  template <typename Predicate> Operation *memberThat(const Node &node, Predicate isIt) const { return *llvm::find_if(node.ops, isIt); }

  bool needsOf(Operation *op, unsigned number) const {
    return llvm::any_of(order.predecessors(op), [&](Operation *before) { return numbers.at(before) == number; });
  }

  bool isNeededBy(Operation *op, unsigned number) const {
    return llvm::any_of(nodes[number].ops, [&](Operation *user) { return llvm::is_contained(order.predecessors(user), op); });
  }

  // The member that needs another one itself.
  Operation *lastOf(const Node &node) const {
    return memberThat(node, [&](Operation *op) { return needsOf(op, numbers.at(op)); });
  }

  // "fusion id 7", or "bucket 2" of a mode.
  static std::string nameOf(dist::FusionAttr fusion) {
    return (fusion.getMode() == dist::FusionMode::Id ? "fusion id " : "bucket ") + std::to_string(fusion.getNumber());
  }

  static StringRef nameOf(const Node &node, Operation *op) {
    return node.group->names[llvm::find(node.group->members, op) - node.group->members.begin()];
  }

  LogicalResult report(const Node &node, Operation *needs, Operation *needed, ArrayRef<unsigned> cycle) const {
    InFlightDiagnostic error = needs->emitOpError("of parameter \"")
                               << nameOf(node, needs) << "\" has " << nameOf(node.group->fusion) << " like that of parameter \""
                               << nameOf(node, needed) << "\", whose result it needs";
    for (unsigned number : cycle) {
      if (nodes[number].group && &nodes[number] != &node) {
        error << " once those of " << nameOf(nodes[number].group->fusion) << " are one";
        break;
      }
    }
    error << "; give the two parameters different ids";
    error.attachNote(needed->getLoc()) << "\"" << nameOf(node, needed) << "\" is here";
    return error;
  }

  const FusionOrder &order;
  DenseMap<Operation *, unsigned> numbers;
};

// Returns the operation that does the work of all members, at the end of the block's ops.
Operation *createFused(OpBuilder &builder, const CollectiveGroup &group, ArrayRef<Operation *> members) {
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  SmallVector<int64_t> dims;
  SmallVector<Attribute> causes;
  Location location = members.front()->getLoc();
  for (Operation *op : members) {
    auto member = cast<dist::CollectiveOpInterface>(op);
    inputs.push_back(member->getOperand(0));
    types.push_back(member->getResult(0).getType());
    location = dist::mergeReasons(location, member.getLoc());
    for (Attribute cause : member.getCauseAttr() ? member.getCauseAttr().getValue() : ArrayRef<Attribute>()) {
      if (!llvm::is_contained(causes, cause)) {
        causes.push_back(cause);
      }
    }
    if (auto own = member->getAttrOfType<DenseI64ArrayAttr>("dims")) {
      dims.append(own.asArrayRef().begin(), own.asArrayRef().end());
    }
  }
  ArrayAttr cause = causes.empty() ? ArrayAttr() : builder.getArrayAttr(causes);
  return llvm::TypeSwitch<Operation *, Operation *>(members.front())
      .Case([&](dist::AllReduceOp op) {
        return dist::AllReduceOp::create(builder, location, types, op.getReduction(), inputs, op.getAxes(), cause, group.fusion);
      })
      .Case([&](dist::AllGatherOp op) {
        return dist::AllGatherOp::create(builder, location, types, inputs, dims, op.getAxes(), cause, group.fusion);
      })
      .Case([&](dist::ReduceScatterOp op) {
        return dist::ReduceScatterOp::create(builder, location, types, op.getReduction(), inputs, dims, op.getAxes(), cause, group.fusion);
      })
      .Default([](Operation *) -> Operation * { llvm_unreachable("collectives of this kind are never one"); });
}

} // namespace

FusionOrder::FusionOrder(Block &block) : block(block) {
  DenseMap<Attribute, Operation *> last;
  for (Operation &op : block) {
    Attribute variable;
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      variable = read.getVariableAttr();
    } else if (auto write = dyn_cast<nn::WriteOp>(op)) {
      variable = write.getVariableAttr();
    }
    if (variable) {
      Operation *&before = last[variable];
      accesses[&op] = before;
      before = &op;
    }
  }
}

SmallVector<Operation *> FusionOrder::predecessors(Operation *op) const {
  SmallVector<Operation *> found;
  for (Value operand : op->getOperands()) {
    if (Operation *maker = operand.getDefiningOp()) {
      found.push_back(maker);
    }
  }
  if (Operation *access = accesses.lookup(op)) {
    found.push_back(access);
  }
  return found;
}

LogicalResult FusionOrder::fuse(ArrayRef<CollectiveGroup> groups) {
  Graph graph(block, groups, *this);
  std::vector<unsigned> sorted = graph.sort();
  if (sorted.size() < graph.nodes.size()) {
    return graph.reportCycle(sorted);
  }
  Operation *end = block.getTerminator();
  OpBuilder builder(end);
  for (unsigned number : sorted) {
    const Node &node = graph.nodes[number];
    if (!node.group) {
      node.ops.front()->moveBefore(end);
      continue;
    }
    Operation *fused = createFused(builder, *node.group, node.ops);
    for (auto [member, result] : llvm::zip_equal(node.ops, fused->getResults())) {
      member->getResult(0).replaceAllUsesWith(result);
      member->erase();
    }
  }
  return success();
}

} // namespace ashlar::partition
