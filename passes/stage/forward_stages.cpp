// SPDX-License-Identifier: Apache-2.0
//
// The stages of forward ops: by rule, and by cost where rules leave it open.

#include "passes/stage/stage_assignment.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/rules.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/paths.h"
#include "dialects/support/element_type.h"
#include "passes/analysis/costs.h"
#include "passes/stage/stage_balance.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::stage {

namespace {

std::string describe(Operation *op) {
  return "op \"" + nn::getPath(op->getLoc()).str() + "\" (" + op->getName().getStringRef().str() + ")";
}

} // namespace

// Gives the paths of forward ops the stages that rules have for them. Some paths are gone, which is no error here: an op that was equal to
// one of another module is that one now.
LogicalResult StageAssignment::readRules(func::FuncOp step) {
  MLIRContext *context = module.getContext();
  const RuleSet<Attribute> stageRules = dist::readStageRules(module);
  for (size_t i = 0; i < stageRules.size(); ++i) {
    int64_t stage = cast<IntegerAttr>(stageRules.valueOf(i)).getInt();
    if (stage < 0 || stage >= stages) {
      return dist::emitRuleError(context, stageRules[i])
             << "gives pipeline_stage " << stage << " but pipeline.stages is " << cut.stages
             << (cut.chunks == 1
                     ? ""
                     : " with " + std::to_string(cut.chunks) + " chunks each, so there are " + std::to_string(stages) + " virtual stages")
             << "; give one from 0 to " << stages - 1;
    }
  }
  auto print = [](const Attribute &stage) { return std::to_string(cast<IntegerAttr>(stage).getInt()); };
  for (StringRef path : nn::pathsOf(step.front())) {
    const RuleVerdict<Attribute> verdict = stageRules.of(path);
    if (failed(dist::emitIfError(context, verdict.contradiction(describeName(NameKind::Op, path), "pipeline_stage", print)))) {
      return failure();
    }
    if (const RuleStatement<Attribute> *statement = verdict.holds()) {
      rules[path] = cast<IntegerAttr>(statement->value).getInt();
      origins[path] = statement->rule->describe();
    }
  }
  return success();
}

// Returns the ops that make the loss: the results of the step, and what is added up in a variable of the compiler whose value one stage
// has, with the ops that take that.
SmallVector<Operation *> StageAssignment::lossOps(func::FuncOp step) const {
  SmallVector<Operation *> ops;
  for (Value result : step.front().getTerminator()->getOperands()) {
    ops.push_back(result.getDefiningOp());
  }
  llvm::StringSet<> sums;
  for (auto write : step.front().getOps<nn::WriteOp>()) {
    Operation *def = write.getValue().getDefiningOp();
    if (ModuleOp(module).lookupSymbol<nn::VariableOp>(write.getVariable()).getInternal() && def && accessOf(def) == Access::Fixed) {
      sums.insert(write.getVariable());
      ops.push_back(def);
    }
  }
  for (auto read : step.front().getOps<nn::ReadOp>()) {
    if (sums.contains(read.getVariable())) {
      llvm::copy_if(read->getUsers(), std::back_inserter(ops), [&](Operation *user) { return accessOf(user) == Access::Fixed; });
    }
  }
  return ops;
}

// Moves each of the ops to the earliest stage that takes its results.
void StageAssignment::joinUsers(ArrayRef<Operation *> ops, const llvm::DenseSet<Operation *> &movable) {
  for (Operation *op : llvm::reverse(ops)) {
    std::optional<int64_t> first;
    for (Operation *user : op->getUsers()) {
      auto found = stageOf.find(user);
      if (found != stageOf.end()) {
        first = std::min(first.value_or(found->second), found->second);
      }
    }
    if (movable.contains(op) && first) {
      stageOf[op] = *first;
    }
  }
}

// Puts the ops that make the loss, and add it up, on the last stage.
LogicalResult StageAssignment::assignLoss(func::FuncOp step, llvm::DenseSet<Operation *> &isRuled) {
  for (Operation *op : lossOps(step)) {
    if (isRuled.contains(op) && stageOf[op] != stages - 1) {
      StringRef path = nn::getPath(op->getLoc());
      return step.emitError() << origins[path] << " puts " << describe(op) << ", which makes the loss, on " << noun() << " " << stageOf[op]
                              << ", but only the last one has it; let the rule match less, or give it pipeline_stage " << stages - 1;
    }
    stageOf[op] = stages - 1;
    isRuled.insert(op);
  }
  return success();
}

// Returns the rule for an op: of its path, or of an op of its body.
llvm::StringMap<int64_t>::const_iterator StageAssignment::ruleOf(Operation *op) const {
  auto rule = rules.find(nn::getPath(op->getLoc()));
  op->walk([&](Operation *inner) { rule = rule == rules.end() ? rules.find(nn::getPath(inner->getLoc())) : rule; });
  return rule;
}

// Checks that no rule puts an op of a body on another stage than the loop.
LogicalResult StageAssignment::checkBody(func::FuncOp step, Operation *loop, int64_t stage) {
  Operation *moved = nullptr;
  loop->walk([&](Operation *op) {
    auto rule = rules.find(nn::getPath(op->getLoc()));
    moved = op != loop && !moved && rule != rules.end() && rule->second != stage ? op : moved;
  });
  if (!moved) {
    return success();
  }
  auto rule = rules.find(nn::getPath(moved->getLoc()));
  return step.emitError() << origins[rule->first()] << " puts " << describe(moved) << " on " << noun() << " " << rule->second
                          << ", but it is in a loop, " << describe(loop) << ", on " << noun() << " " << stage
                          << ", and a loop has one; give both the same pipeline_stage";
}

LogicalResult StageAssignment::assignForward(func::FuncOp step) {
  nn::Phases phases(step.front());
  SmallVector<Operation *> ops;
  for (Operation &op : step.front().without_terminator()) {
    if (phases.of(&op) == nn::Phase::Forward && accessOf(&op) == Access::Fixed) {
      ops.push_back(&op);
    }
  }
  // The least stage of each op: by rule, or by its operands.
  llvm::DenseSet<Operation *> isRuled, begins; // by rule; without operands except values of variables alone
  llvm::DenseSet<Operation *> ofVariables;
  for (Operation *op : ops) {
    auto rule = ruleOf(op);
    if (rule != rules.end() && failed(checkBody(step, op, rule->second))) {
      return failure();
    }
    std::optional<int64_t> needed;
    Operation *latest = nullptr;
    for (Value operand : op->getOperands()) {
      std::optional<int64_t> stage = stageOfValue(operand);
      if (stage && (!needed || *stage > *needed)) {
        needed = stage;
        latest = operand.getDefiningOp();
      }
    }
    if (rule != rules.end() && needed && *needed > rule->second) {
      return step.emitError("the stages go backward from ")
             << describe(latest) << " on " << noun() << " " << *needed << " to " << describe(op) << ", which " << origins[rule->first()]
             << " puts on " << noun() << " " << rule->second << "; give it a pipeline_stage of at least " << *needed;
    }
    stageOf[op] = rule != rules.end() ? rule->second : needed.value_or(0);
    bool isOfVariables = llvm::all_of(op->getOperands(), [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      return def && (accessOf(def) != Access::Fixed || ofVariables.contains(def));
    });
    if (rule != rules.end()) {
      isRuled.insert(op);
    } else if (!needed || isOfVariables) {
      begins.insert(op);
    }
    if (isOfVariables && rule == rules.end()) {
      ofVariables.insert(op);
    }
  }
  if (failed(assignLoss(step, isRuled))) {
    return failure();
  }
  joinUsers(ops, begins);       // an op without operands stands with its users
  SmallVector<Operation *> cut; // values of variables alone go with their users
  DenseMap<Operation *, size_t> places;
  for (Operation *op : ops) {
    if (!ofVariables.contains(op)) {
      places[op] = cut.size();
      cut.push_back(op);
    }
  }
  llvm::sort(cut, [&](Operation *a, Operation *b) { return std::pair(stageOf[a], places[a]) < std::pair(stageOf[b], places[b]); });
  auto ruled = llvm::map_to_vector(cut, [&](Operation *op) { return isRuled.contains(op) ? std::optional(stageOf[op]) : std::nullopt; });
  if (failed(balance(cut, ruled))) {
    return failure();
  }
  joinUsers(ops, ofVariables);
  llvm::for_each(ops, [&](Operation *op) { notePath(op); });
  return success();
}

// Returns the slowest link between a virtual stage and the next; nothing where the hosts are not known.
std::optional<analysis::Link> StageAssignment::slowestLink() const {
  dist::MeshOp mesh = dist::findMesh(module);
  std::optional<analysis::Link> slowest;
  for (int64_t next = 1; mesh && mesh.getHostsAttr() && next < stages; ++next) {
    const analysis::Link link =
        analysis::stageLink(mesh.getHostsAttr(), mesh.getMesh().numDevices(), cut.stageOf(next - 1), cut.stageOf(next));
    slowest = slowest ? slowest->worse(link) : link;
  }
  return slowest;
}

// Cuts the ops, none of which comes before its operands, where rules leave it open.
LogicalResult StageAssignment::balance(ArrayRef<Operation *> ops, ArrayRef<std::optional<int64_t>> ruled) {
  analysis::DeviceRates rates = analysis::findDeviceRates(module);
  const int64_t count = ops.size();
  CutProblem problem{{}, std::vector<int64_t>(count, 0), std::vector<bool>(count, false), stages, {}, {}};
  const std::optional<analysis::Link> link = slowestLink();
  auto crossingPs = [&](Value value) {
    const int64_t bytes = byteSize(cast<ShapedType>(value.getType()));
    return link ? analysis::stageMessagePs(bytes, *link) : rates.timePs(0, 0, bytes);
  };
  std::vector<int64_t> changes(count + 2, 0); // of crossing values, from one place to the next
  DenseMap<Operation *, int64_t> places;
  for (auto [place, op] : llvm::enumerate(ops)) {
    places[op] = place;
    problem.timePs.push_back(analysis::opTimePs(op, rates));
    StringRef path = nn::getPath(op->getLoc());
    problem.isForbidden[place] = place > 0 && !path.empty() && path == nn::getPath(ops[place - 1]->getLoc());
  }
  for (auto [place, op] : llvm::enumerate(ops)) {
    for (Value result : op->getResults()) {
      int64_t last = place;
      for (Operation *user : result.getUsers()) {
        auto found = places.find(user);
        last = found == places.end() ? last : std::max(last, found->second);
      }
      changes[place + 1] += crossingPs(result);
      changes[last + 1] -= crossingPs(result);
    }
  }
  for (int64_t place = 1; place < count; ++place) {
    problem.crossingPs[place] = problem.crossingPs[place - 1] + changes[place];
  }
  for (int64_t stage = 1; stage < stages; ++stage) {
    int64_t from = 1, to = count - 1;
    for (auto [place, rule] : llvm::enumerate(ruled)) {
      from = rule && *rule < stage ? place + 1 : from;
      to = rule && *rule >= stage ? std::min<int64_t>(to, place) : to;
    }
    problem.least.push_back(from);
    problem.most.push_back(to);
  }
  std::vector<int64_t> cuts = balanceStages(problem);
  if (cuts.empty()) { // then between ops of one module path
    problem.isForbidden.assign(count, false);
    cuts = balanceStages(problem);
  }
  if (stages > 1 && cuts.empty()) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      int64_t begin = stage == 0 ? 0 : problem.least[stage - 1], end = stage + 1 == stages ? count : problem.most[stage];
      if (begin >= end && !rules.empty()) {
        return module.emitError("rules leave no op for ")
               << noun() << " " << stage << " of " << stages << "; give one a pipeline_stage of " << stage;
      }
    }
    return module.emitError("the model has ") << count << " ops that can be cut, too few for " << stages << " " << noun()
                                              << "s; take fewer stages" << (cut.chunks == 1 ? "" : " or chunks");
  }
  for (auto [place, op] : llvm::enumerate(ops)) {
    stageOf[op] = llvm::upper_bound(cuts, static_cast<int64_t>(place)) - cuts.begin();
  }
  return success();
}

} // namespace ashlar::stage
