// SPDX-License-Identifier: Apache-2.0
//
// ashlar-recompute. First it decides which values of the forward pass are not kept; then each op of the backward pass that takes one gets a
// copy of its producers, from the values that are kept. State: the copies so far.

#include "dialects/dist/dist.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/phases.h"
#include "dialects/nn/programs.h"
#include "dialects/support/operands_first.h"
#include "passes/partition/merge_equal_ops.h"
#include "passes/partition/passes.h"
#include "passes/partition/recompute_segments.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_RECOMPUTEPASS
#include "passes/partition/passes.h.inc"

namespace {

bool isFree(Operation *op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute && compute.getCost() == Cost::Free;
}

// Whether an op ends a fused kernel: its operands lie in memory when it runs.
bool readsMemory(Operation *op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return isa<dist::CollectiveOpInterface>(op) || (compute && compute.getCost() == Cost::Contraction);
}

bool isConstant(Operation *op) {
  return op->hasTrait<OpTrait::ConstantLike>();
}

// Puts copies into the backward pass of a program.
class Recomputation {
public:
  Recomputation(func::FuncOp step, const nn::Phases &phases, const RecomputeSegments &segments)
      : step(step), phases(phases), segments(segments) {}

  void run() {
    SmallVector<Operation *> ops;
    for (Operation &op : step.front().without_terminator()) {
      ops.push_back(&op);
      note(op);
    }
    for (Operation *op : ops) {
      if (phases.of(op) != nn::Phase::Backward) {
        continue;
      }
      for (OpOperand &operand : op->getOpOperands()) {
        if (Operation *def = operand.get().getDefiningOp(); def && segments.contains(def)) {
          operand.set(provide(operand.get(), op));
        }
      }
    }
  }

private:
  // Numbers the ops, and finds of each of the backward pass the last op of the forward pass that it needs.
  void note(Operation &op) {
    numbers.try_emplace(&op, numbers.size());
    if (auto read = dyn_cast<nn::ReadOp>(op); read && read->hasAttr(dist::kReadAgainAttr)) {
      gathered.insert(read.getVariable());
    }
    const bool isForward = phases.of(&op) == nn::Phase::Forward;
    if (auto found = segments.find(&op); found != segments.end()) {
      int64_t &end = segmentEnds.try_emplace(found->second, -1).first->second;
      end = std::max<int64_t>(end, numbers[&op]);
    }
    if (isForward) {
      return;
    }
    int64_t last = -1;
    for (Value operand : op.getOperands()) {
      if (Operation *def = operand.getDefiningOp()) {
        const bool isOfForward = phases.of(def) == nn::Phase::Forward;
        last = std::max(last, isOfForward ? numbers.lookup(def) : reach.lookup_or(def, -1));
      }
    }
    reach[&op] = last;
    backward.push_back(&op);
  }

  // Whether a value belongs to the backward pass of ops after a segment.
  bool isLate(Value value, const std::string &segment) const {
    Operation *def = value.getDefiningOp();
    return def && phases.of(def) == nn::Phase::Backward && reach.lookup_or(def, -1) > segmentEnds.at(segment);
  }

  // Returns the value that the copies of a segment come after, when `user` is the first op that needs one: a gradient on the way to it,
  // where there is one that lies in memory anyway, because a product or a collective takes it. Null when there is none.
  Value findEvent(const std::string &segment, Operation *user) {
    Value gradient = findLateOperand(user, segment);
    for (Operation *next : user->getUsers()) { // for example a mask's product
      Value other = gradient ? Value() : findLateOperand(next, segment);
      gradient = other && numbers.lookup(other.getDefiningOp()) < numbers.lookup(user) ? other : gradient;
    }
    for (auto at = backward.rbegin(); !gradient && at != backward.rend(); ++at) {
      gradient = numbers.lookup(*at) < numbers.lookup(user) ? findLateOperand(*at, segment) : gradient;
    }
    Operation *taker = user;
    Value value = gradient;
    for (int step = 0; step < kSteps && value; ++step) {
      if (readsMemory(taker)) {
        return value;
      }
      taker = value.getDefiningOp();
      value = findLateOperand(taker, segment);
    }
    return gradient;
  }

  // Returns an operand of an op that belongs to the backward pass of ops after a segment; null when there is none.
  Value findLateOperand(Operation *op, const std::string &segment) const {
    for (Value operand : op->getOperands()) {
      Value value = operand;
      while (Operation *def = value.getDefiningOp()) { // of a view nothing is computed
        if (!isFree(def) || def->getNumOperands() != 1) {
          break;
        }
        value = def->getOperand(0);
      }
      if (isLate(value, segment)) {
        return value;
      }
    }
    return {};
  }

  // Returns the operand of `user` instead of a value of the forward pass: the value itself where the backward pass begins with it.
  Value provide(Value value, Operation *user) {
    const std::string &segment = segments.find(value.getDefiningOp())->second;
    Value &event = events[segment];
    event = event ? event : findEvent(segment, user);
    return event ? copyOf(value, segment, event, user) : value;
  }

  // Returns the rematerialized value, before `user`; kept values, constants and parameters stay.
  Value copyOf(Value value, const std::string &segment, Value event, Operation *user) {
    if (Operation *op = value.getDefiningOp()) {
      walkOperandsFirst(
          op, [&](Operation *def) { return isComputedAgain(def) && !copies.contains(def->getResult(0)); },
          [&](Operation *def) { copy(def, segment, event, user); });
    }
    return copies.lookup_or(value, value);
  }

  // Whether an op may be rematerialized; kept values, constants and parameters stay.
  bool isComputedAgain(Operation *def) const {
    const bool isView = isFree(def) && !goesToOtherStage(def); // values sent to another stage are kept there, views too
    return !isa<nn::ReadOp>(def) && !isConstant(def) && (segments.contains(def) || isView);
  }

  // Records the replacements of the op's results, given its operands' replacements: results of a copy, or they themselves where it would be
  // equal.
  // equal.
  void copy(Operation *def, const std::string &segment, Value event, Operation *user) {
    OpBuilder builder(user);
    SmallVector<Value> operands;
    bool isChanged = false;
    for (Value operand : def->getOperands()) {
      Value copy = copies.lookup_or(operand, operand);
      const bool isKept = copy == operand && !isGiven(operand);
      operands.push_back(isKept ? after(copy, segment, event, builder) : copy);
      isChanged |= operands.back() != operand;
    }
    for (size_t i = 0; i < operands.size() && !isChanged && !isFree(def); ++i) {
      if (auto read = operands[i].getDefiningOp<nn::ReadOp>()) { // of parameters alone: they are taken when the copy is made
        operands[i] = readAgain(read, segment, event, builder);
        isChanged = true;
      }
    }
    Operation *made = isChanged ? builder.clone(*def) : def;
    if (isChanged) {
      made->setOperands(operands);
      made->removeAttr(nn::kOutputsAttr); // of the model's tensors there is one each
    }
    for (auto [from, to] : llvm::zip_equal(def->getResults(), made->getResults())) {
      copies[from] = to;
    }
  }

  // Whether a value takes no memory of its own: a parameter, a constant, a view of these.
  bool isGiven(Value value) {
    auto isSource = [](Operation *def) { return isa<nn::ReadOp>(def) || isConstant(def); };
    auto isKnown = [&](Value known) {
      Operation *def = known.getDefiningOp();
      return def && (isSource(def) || givenViews.lookup(def));
    };
    if (Operation *op = value.getDefiningOp()) {
      walkOperandsFirst(
          op, [&](Operation *def) { return isFree(def) && !isSource(def) && !givenViews.contains(def); },
          [&](Operation *view) { givenViews[view] = llvm::all_of(view->getOperands(), isKnown); });
    }
    return isKnown(value);
  }

  // Parameters that the backward pass gathers anyway are gathered once there.
  Value readAgain(nn::ReadOp read, const std::string &segment, Value event, OpBuilder &builder) {
    if (!gathered.contains(read.getVariable())) {
      return after(read, segment, event, builder);
    }
    Operation *again = builder.clone(*read);
    again->setAttr(dist::kReadAgainAttr, builder.getUnitAttr());
    return again->getResult(0);
  }

  Value after(Value value, const std::string &segment, Value event, OpBuilder &builder) {
    Value &tied = ties[{segment, value.getAsOpaquePointer()}];
    if (!tied) {
      tied = dist::AfterOp::create(builder, value.getLoc(), value, event);
    }
    return tied;
  }

  static constexpr int kSteps = 8; // that are taken back to a product

  func::FuncOp step;
  const nn::Phases &phases;
  const RecomputeSegments &segments;
  DenseMap<Operation *, int64_t> numbers, reach;
  SmallVector<Operation *> backward;
  std::map<std::string, int64_t> segmentEnds;
  std::map<std::string, Value> events;
  std::map<std::pair<std::string, const void *>, Value> ties;
  llvm::StringSet<> gathered;    // parameters that the backward pass gathers
  DenseMap<Value, Value> copies; // or the value itself, where a copy would be equal
  DenseMap<Operation *, bool> givenViews;
};

// Makes the backward pass read each parameter once, so that copies and gradients share one gather. Gradients stand between, which keeps CSE
// from it.
void mergeReadsAgain(func::FuncOp step) {
  DenseMap<Attribute, nn::ReadOp> first;
  for (auto read : llvm::make_early_inc_range(step.front().getOps<nn::ReadOp>())) {
    if (!read->hasAttr(dist::kReadAgainAttr)) {
      continue;
    }
    if (auto [found, isNew] = first.try_emplace(read.getVariableAttr(), read); !isNew) {
      read.replaceAllUsesWith(found->second.getResult());
      read.erase();
    }
  }
}

struct RecomputePass : impl::RecomputePassBase<RecomputePass> {
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    func::FuncOp step = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    if (!step) {
      return;
    }
    nn::Phases phases(step.front());
    dist::RecomputeRules rules(getOperation());
    RecomputeSegments segments = segmentsByRules(step, phases, rules);
    if (moves >= 0) {
      int64_t count = addSegmentsByCost(step, phases, rules, moves, segments);
      getOperation()->setAttr(dist::kRecomputeMovesAttr, IntegerAttr::get(IntegerType::get(&getContext(), 64), count));
    }
    if (!segments.empty()) {
      Recomputation(step, phases, segments).run();
      mergeReadsAgain(step);
      mergeEqualOps(step);
    }
    getOperation()->removeAttr(dist::kRecomputeRulesAttr);
  }
};

} // namespace
} // namespace ashlar::partition
