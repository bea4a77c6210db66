// SPDX-License-Identifier: Apache-2.0
//
// Rules first. By cost: equal modules are found by their computation, not by their names; each kind is solved once.

#include "passes/partition/recompute_segments.h"

#include "dialects/dist/stages.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/repeat.h"
#include "dialects/support/element_type.h"
#include "passes/analysis/costs.h"
#include "passes/partition/recompute_choice.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace ashlar::partition {

bool goesToOtherStage(Operation *op) {
  Attribute here = op->getAttr(dist::kVirtualStageAttr);
  return here && llvm::any_of(op->getUsers(), [&](Operation *user) {
           Attribute there = user->getAttr(dist::kVirtualStageAttr);
           return there && there != here;
         });
}

namespace {

// Returns the end of the first module of a path at or behind `from`, a / or a dot.
size_t moduleEnd(StringRef path, size_t from) {
  return path.find_first_of("/.", from);
}

// Whether the op of a path is in a module.
bool isIn(StringRef path, StringRef module) {
  return path.consume_front(module) && moduleEnd(path, 0) == 0;
}

// Returns the op that one call of a library computes with another; null: none.
Operation *computedTogether(Operation *op) {
  auto contraction = dyn_cast<ContractionOpInterface>(op);
  Value together = contraction ? contraction.getComputedTogether() : Value();
  return together ? together.getDefiningOp() : nullptr;
}

// The ops of the forward pass, and their rules.
class ForwardOps {
public:
  ForwardOps(func::FuncOp step, const nn::Phases &phases, const dist::RecomputeRules &rules) : phases(phases) {
    for (Operation &op : step.front().without_terminator()) {
      noteVariables(op);
    }
    for (Operation &op : llvm::reverse(step.front().without_terminator())) {
      paths[&op] = pathOf(&op);
      if (phases.of(&op) == nn::Phase::Forward && isPure(&op) && !isa<nn::ReadOp, nn::RepeatOp>(op) &&
          !op.hasTrait<OpTrait::ConstantLike>()) {
        settings[&op] = rules.of(paths[&op]);
        ops.push_back(&op);
      }
    }
    std::reverse(ops.begin(), ops.end());
  }

  // Whether a rule lets an op be repeated, or none forbids it.
  bool mayRematerialize(Operation *op) const {
    const dist::RecomputeSetting &setting = settings.at(op);
    bool isOfComm = isa<dist::CollectiveOpInterface>(op);
    return setting.recompute.value_or(true) && (!isOfComm || (isOfVariables(op) ? setting.paramGather : setting.comm));
  }

  // Whether ops of the forward pass outside a module take the result of an op.
  bool leaves(Operation *op, StringRef module) const {
    return llvm::any_of(op->getUsers(),
                        [&](Operation *user) { return phases.of(user) == nn::Phase::Forward && !isIn(paths.lookup(user), module); });
  }

  // Returns the name of a unit of rematerialization: the part of a module on one stage.
  static std::string segmentOf(StringRef module, Operation *op) {
    auto stage = op->getAttrOfType<IntegerAttr>(dist::kVirtualStageAttr);
    return module.str() + (stage ? "@" + std::to_string(stage.getInt()) : "");
  }

  // Whether an op takes variables and constants alone.
  bool isOfVariables(Operation *op) const { return ofVariables.contains(op); }

  // Whether the backward pass takes the result of an op.
  bool isForBackward(Operation *op) const {
    return llvm::any_of(op->getUsers(), [&](Operation *user) { return phases.of(user) == nn::Phase::Backward; });
  }

  std::vector<Operation *> ops; // that compute, in program order
  DenseMap<Operation *, StringRef> paths;
  std::map<Operation *, dist::RecomputeSetting> settings;

private:
  // Records values made of variables and constants alone.
  void noteVariables(Operation &op) {
    bool isMade = isPure(&op) && llvm::all_of(op.getOperands(), [&](Value operand) {
                    return operand.getDefiningOp() && ofVariables.contains(operand.getDefiningOp());
                  });
    if (isa<nn::ReadOp>(op) || isMade) {
      ofVariables.insert(&op);
    }
  }

  // A collective without a path belongs to the module that takes its result: later ops have theirs already.
  StringRef pathOf(Operation *op) const {
    StringRef path = nn::getPath(op->getLoc());
    for (Operation *user : op->getUsers()) {
      if (path.empty() && phases.of(user) == nn::Phase::Forward) {
        path = paths.lookup(user);
      }
    }
    return path;
  }

  const nn::Phases &phases;
  DenseSet<Operation *> ofVariables;
};

using Modules = llvm::MapVector<StringRef, SmallVector<Operation *>>;

// Returns the computation of a module: its ops, their types, and their operands among them. Values of variables and constants alone are
// left out: where modules share one, for example a mask, it stands in the first of them.
std::string contentOf(StringRef module, ArrayRef<Operation *> ops, const ForwardOps &forward) {
  std::string text;
  llvm::raw_string_ostream out(text);
  DenseMap<Operation *, size_t> places;
  for (Operation *op : ops) {
    if (forward.isOfVariables(op)) {
      continue;
    }
    out << forward.paths.lookup(op).drop_front(module.size()) << ' ' << op->getName().getStringRef();
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      out << ' ' << (def && places.contains(def) ? static_cast<int64_t>(places[def]) : -1) << ':' << operand.getType();
    }
    out << '\n';
    places[op] = places.size();
  }
  return text;
}

// Returns the modules whose ops are decided together: the outermost of repeated ones, and for the rest the first part of the path.
Modules findModules(const ForwardOps &forward) {
  Modules all;
  for (Operation *op : forward.ops) {
    StringRef path = forward.paths.lookup(op);
    for (size_t end = moduleEnd(path, 1); end != StringRef::npos; end = moduleEnd(path, end + 1)) {
      all[path.take_front(end)].push_back(op);
    }
  }
  std::map<std::string, int64_t> counts;
  llvm::StringMap<std::string> contents;
  for (auto &[module, ops] : all) {
    ++counts[contents[module] = contentOf(module, ops, forward)];
  }
  Modules chosen;
  for (Operation *op : forward.ops) {
    StringRef path = forward.paths.lookup(op), found;
    for (size_t end = moduleEnd(path, 1); end != StringRef::npos; end = moduleEnd(path, end + 1)) {
      StringRef module = path.take_front(end);
      found = found.empty() ? module : found;
      if (all[module].size() > 1 && counts[contents[module]] > 1) {
        found = module;
        break;
      }
    }
    if (!found.empty()) {
      chosen[found].push_back(op);
    }
  }
  return chosen;
}

std::vector<RecomputeNode> nodesOf(StringRef module, ArrayRef<Operation *> ops, const ForwardOps &forward,
                                   const analysis::DeviceRates &rates) {
  std::vector<RecomputeNode> nodes;
  DenseMap<Operation *, unsigned> numbers;
  for (Operation *op : ops) {
    auto compute = dyn_cast<ComputeOpInterface>(op);
    RecomputeNode node;
    node.bytes = totalByteSize(op->getResultTypes());
    node.timePs = compute && compute.getCost() == Cost::Free ? 0 : analysis::opTimePs(op, rates);
    node.isNeeded = forward.isForBackward(op);
    node.isKept = forward.leaves(op, module) || goesToOtherStage(op);
    node.mayRematerialize = forward.mayRematerialize(op);
    for (Value operand : op->getOperands()) {
      if (auto found = numbers.find(operand.getDefiningOp()); found != numbers.end()) {
        node.operands.push_back(found->second);
      }
    }
    if (auto found = numbers.find(computedTogether(op)); found != numbers.end()) {
      node.together.push_back(found->second);
      nodes[found->second].together.push_back(nodes.size());
    }
    numbers[op] = nodes.size();
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// The key of modules with equal choices.
using NodeKey = std::vector<std::tuple<int64_t, int64_t, bool, bool, bool, std::vector<unsigned>, std::vector<unsigned>>>;

NodeKey keyOf(const std::vector<RecomputeNode> &nodes) {
  NodeKey key;
  for (const RecomputeNode &node : nodes) {
    key.emplace_back(node.bytes, node.timePs, node.isNeeded, node.isKept, node.mayRematerialize, node.operands, node.together);
  }
  return key;
}

// Returns the choices of a module, the first one to keep all.
std::vector<RecomputePoint> choicesOf(const std::vector<RecomputeNode> &nodes) {
  RecomputePoint none{std::vector<bool>(nodes.size(), false)};
  for (const RecomputeNode &node : nodes) {
    none.keptBytes += node.isNeeded && !node.isKept ? node.bytes : 0;
  }
  std::vector<RecomputePoint> points = {none};
  for (RecomputePoint &point : recomputeChoices(nodes)) {
    if (point.keptBytes < points.back().keptBytes) {
      points.push_back(std::move(point));
    }
  }
  return points;
}

// From one choice of a module to its next.
struct Move {
  double psPerByte;
  size_t module, point;
};

} // namespace

RecomputeSegments segmentsByRules(func::FuncOp step, const nn::Phases &phases, const dist::RecomputeRules &rules) {
  ForwardOps forward(step, phases, rules);
  RecomputeSegments segments;
  for (Operation *op : forward.ops) {
    const dist::RecomputeSetting &setting = forward.settings.at(op);
    const bool isOutput = goesToOtherStage(op) || (!setting.module.empty() && forward.leaves(op, setting.module));
    if (setting.recompute.value_or(false) && forward.mayRematerialize(op) && !isOutput) {
      segments[op] = ForwardOps::segmentOf(setting.module.empty() ? forward.paths.lookup(op) : setting.module, op);
    }
  }
  for (Operation *op : forward.ops) {
    Operation *other = computedTogether(op);
    if (other && segments.contains(op) != segments.contains(other)) { // where one is an output of its module
      segments.erase(op);
      segments.erase(other);
    }
  }
  return segments;
}

int64_t addSegmentsByCost(func::FuncOp step, const nn::Phases &phases, const dist::RecomputeRules &rules, int64_t steps,
                          RecomputeSegments &segments) {
  ForwardOps forward(step, phases, rules);
  analysis::DeviceRates rates = analysis::findDeviceRates(step->getParentOfType<ModuleOp>());
  Modules modules = findModules(forward);
  std::map<NodeKey, std::vector<RecomputePoint>> known;
  std::vector<const std::vector<RecomputePoint> *> choices;
  std::vector<Move> moves;
  for (auto &[module, ops] : modules) {
    const bool isRuled = llvm::any_of(ops, [&](Operation *op) { return forward.settings.at(op).recompute.value_or(false); });
    std::vector<RecomputeNode> nodes = isRuled ? std::vector<RecomputeNode>() : nodesOf(module, ops, forward, rates);
    auto [found, isNew] = known.try_emplace(keyOf(nodes));
    if (isNew) {
      found->second = choicesOf(nodes);
    }
    choices.push_back(&found->second);
    for (size_t point = 1; point < found->second.size(); ++point) {
      const RecomputePoint &before = found->second[point - 1], &after = found->second[point];
      moves.push_back({static_cast<double>(after.timePs - before.timePs) / static_cast<double>(before.keptBytes - after.keptBytes),
                       choices.size() - 1, point});
    }
  }
  llvm::sort(moves, [](const Move &a, const Move &b) {
    return std::tie(a.psPerByte, a.module, a.point) < std::tie(b.psPerByte, b.module, b.point);
  });
  std::vector<size_t> reached(modules.size(), 0);
  for (const Move &move : llvm::ArrayRef(moves).take_front(steps)) {
    reached[move.module] = std::max(reached[move.module], move.point);
  }
  for (auto [number, module] : llvm::enumerate(modules)) {
    const RecomputePoint &point = (*choices[number])[reached[number]];
    for (size_t i = 0; i < point.isRecomputed.size(); ++i) {
      if (point.isRecomputed[i]) {
        segments[module.second[i]] = ForwardOps::segmentOf(module.first, module.second[i]);
      }
    }
  }
  return moves.size();
}

} // namespace ashlar::partition
