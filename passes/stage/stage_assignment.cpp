// SPDX-License-Identifier: Apache-2.0
//
// Forward ops first: rules, and prices for what they leave open. Gradients follow the ops that they are of, updates the parameters that
// they write.

#include "passes/stage/stage_assignment.h"

#include "dialects/dist/costs.h"
#include "dialects/dist/dist.h"
#include "dialects/dist/rules.h"
#include "dialects/dist/stages.h"
#include "dialects/support/element_type.h"
#include "dialects/support/names.h"
#include "passes/stage/stage_balance.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

#include <set>

using namespace mlir;

namespace ashlar::stage {
namespace {

int64_t bytesOf(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types) {
    bytes += byteSize(cast<ShapedType>(type));
  }
  return bytes;
}

// Returns the time of an op: what it computes, or what it reads and writes.
int64_t timeOf(Operation *op, const dist::DeviceRates &rates) {
  auto types = [](TypeRange range) { return llvm::map_to_vector(range, [](Type type) { return cast<RankedTensorType>(type); }); };
  dist::Work work = dist::workOf(op, types(op->getOperandTypes()), types(op->getResultTypes()));
  return rates.timePs(work.flops, work.narrowFlops, bytesOf(op->getOperandTypes()) + bytesOf(op->getResultTypes()));
}

std::optional<int64_t> least(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

std::optional<int64_t> most(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::max(*a, *b) : a ? a : b;
}

std::string describe(Operation *op) {
  return "op \"" + nn::getPath(op->getLoc()).str() + "\" (" + op->getName().getStringRef().str() + ")";
}

} // namespace

bool expands(Operation *op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute && compute.getCost() == Cost::Free && op->getNumOperands() > 0 && llvm::all_of(op->getOperandTypes(), [&](Type type) {
           return cast<ShapedType>(type).getRank() == 0 || bytesOf(type) < bytesOf(op->getResultTypes());
         });
}

FailureOr<StageAssignment> StageAssignment::create(ModuleOp module, int64_t stages) {
  StageAssignment assignment(module, stages);
  return failed(assignment.run()) ? FailureOr<StageAssignment>() : std::move(assignment);
}

LogicalResult StageAssignment::run() {
  for (auto function : module.getOps<func::FuncOp>()) {
    findAccess(function);
  }
  auto step = module.lookupSymbol<func::FuncOp>(nn::kTrainStep);
  if (failed(readRules(step)) || failed(assignForward(step))) {
    return failure();
  }
  findHomes(step);
  assignBackward(step);
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.getSymName() == nn::kEvalStep) {
      assignEvaluation(function);
    }
    if (function.getSymName() == nn::kUpdate) {
      assignUpdate(function);
    }
  }
  return success();
}

void StageAssignment::findAccess(func::FuncOp function) {
  const bool isStep = function.getSymName() == nn::kTrainStep;
  llvm::StringSet<> written;
  for (auto write : function.front().getOps<nn::WriteOp>()) {
    written.insert(write.getVariable());
  }
  for (Operation &op : function.front().without_terminator()) {
    Access &found = access[&op];
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      auto variable = module.lookupSymbol<nn::VariableOp>(read.getVariable());
      found = isStep && variable.getInternal() && written.contains(read.getVariable()) ? Access::Counted : Access::Free;
      continue;
    }
    found = Access::Free;
    for (Value operand : op.getOperands()) {
      Operation *def = operand.getDefiningOp();
      auto read = dyn_cast_or_null<nn::ReadOp>(def);
      bool isOfOneStage = read && !module.lookupSymbol<nn::VariableOp>(read.getVariable()).getInternal();
      found = !def || isOfOneStage ? Access::Fixed : std::max(found, access.lookup(def));
    }
    if (isa<dist::CollectiveOpInterface, nn::GradientOp, nn::WriteOp>(op) || !isPure(&op)) {
      found = Access::Fixed;
    }
  }
}

// Gives the paths of forward ops the stages that rules have for them.
LogicalResult StageAssignment::readRules(func::FuncOp step) {
  auto settings = module->getAttrOfType<ArrayAttr>(dist::kStageRulesAttr);
  if (!settings) {
    return success();
  }
  SmallVector<StringRef> paths;
  llvm::StringSet<> seen;
  for (Operation &op : step.front().without_terminator()) {
    if (StringRef path = nn::getPath(op.getLoc()); !path.empty() && seen.insert(path).second) {
      paths.push_back(path);
    }
  }
  llvm::StringMap<dist::SettingAttr> given;
  for (auto setting : settings.getAsRange<dist::SettingAttr>()) {
    int64_t stage = cast<IntegerAttr>(setting.getValues().get(dist::kStageAttr)).getInt();
    bool matches = false;
    for (StringRef path : paths) {
      if (!matchesGlob(setting.getMatch(), path)) {
        continue;
      }
      matches = true;
      auto [other, isNew] = given.try_emplace(path, setting);
      if (isNew || setting.getPriority() < other->second.getPriority()) {
        other->second = setting;
        rules[path] = stage;
        origins[path] = dist::describeRule(setting.getMatch(), setting.getOrigin());
      } else if (rules[path] != stage && setting.getPriority() == other->second.getPriority()) {
        return dist::emitRuleError(setting.getMatch(), setting.getOrigin())
               << "gives op \"" << path << "\" the pipeline_stage " << stage << " but " << origins[path] << " gives it " << rules[path]
               << "; make them agree, or let the priority of one be lower";
      }
    }
    if (stage < 0 || stage >= stages) {
      return dist::emitRuleError(setting.getMatch(), setting.getOrigin())
             << "gives pipeline_stage " << stage << " but pipeline.stages is " << stages << "; give one from 0 to " << stages - 1;
    }
    if (!matches) {
      return dist::emitRuleError(setting.getMatch(), setting.getOrigin())
             << "matches no op, which pipeline_stage is for; nearest names: " << nearestNames(paths, setting.getMatch());
    }
  }
  return success();
}

std::optional<int64_t> StageAssignment::stageOfValue(Value value) const {
  Operation *def = value.getDefiningOp();
  auto found = def ? stageOf.find(def) : stageOf.end();
  return found == stageOf.end() ? std::nullopt : std::optional(found->second);
}

LogicalResult StageAssignment::assignForward(func::FuncOp step) {
  nn::Phases phases(step.front());
  SmallVector<Operation *> ops;
  for (Operation &op : step.front().without_terminator()) {
    if (phases.of(&op) == nn::Phase::Forward && accessOf(&op) == Access::Fixed) {
      ops.push_back(&op);
    }
  }
  // The stage that each op has at least: by rule, or what it takes.
  llvm::DenseSet<Operation *> isRuled, begins; // by rule; that take no results of others, or only what is made of variables alone
  llvm::DenseSet<Operation *> ofVariables;
  for (Operation *op : ops) {
    auto rule = rules.find(nn::getPath(op->getLoc()));
    std::optional<int64_t> needed;
    Operation *latest = nullptr;
    for (Value operand : op->getOperands()) {
      std::optional<int64_t> stage = stageOfValue(operand);
      latest = stage && (!needed || *stage > *needed) ? operand.getDefiningOp() : latest;
      needed = most(needed, stage);
    }
    if (rule != rules.end() && needed && *needed > rule->second) {
      return step.emitError("the stages go backward from ")
             << describe(latest) << " on stage " << *needed << " to " << describe(op) << ", which " << origins[rule->first()]
             << " puts on stage " << rule->second << "; give it a pipeline_stage of at least " << *needed;
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
  for (Value result : step.front().getTerminator()->getOperands()) { // the last stage tells the loss
    Operation *op = result.getDefiningOp();
    if (isRuled.contains(op) && stageOf[op] != stages - 1) {
      StringRef path = nn::getPath(op->getLoc());
      return step.emitError() << origins[path] << " puts " << describe(op) << ", which makes the loss, on stage " << stageOf[op]
                              << ", but the last one tells it; let the rule match less, or give it pipeline_stage " << stages - 1;
    }
    stageOf[op] = stages - 1;
    isRuled.insert(op);
  }
  // What takes no other op's results stands with what takes its own.
  auto joinUsers = [&](const llvm::DenseSet<Operation *> &movable) {
    for (Operation *op : llvm::reverse(ops)) {
      std::optional<int64_t> first;
      for (Operation *user : op->getUsers()) {
        auto found = stageOf.find(user);
        first = found == stageOf.end() ? first : least(first, found->second);
      }
      if (movable.contains(op) && first) {
        stageOf[op] = *first;
      }
    }
  };
  joinUsers(begins);
  SmallVector<Operation *> cut; // what is made of variables alone goes with what takes it
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
  joinUsers(ofVariables);
  for (Operation *op : ops) {
    StringRef path = nn::getPath(op->getLoc());
    auto [found, isNew] = pathStages.try_emplace(path, stageOf[op]);
    found->second = std::max(found->second, stageOf[op]);
  }
  return success();
}

// Cuts the ops, none of which comes before what it takes, where rules leave it open.
LogicalResult StageAssignment::balance(ArrayRef<Operation *> ops, ArrayRef<std::optional<int64_t>> ruled) {
  dist::DeviceRates rates = dist::findDeviceRates(module);
  const int64_t count = ops.size();
  CutProblem problem{{}, std::vector<int64_t>(count, 0), std::vector<bool>(count, false), stages, {}, {}};
  std::vector<int64_t> changes(count + 2, 0); // of what crosses, from one place to the next
  DenseMap<Operation *, int64_t> places;
  for (auto [place, op] : llvm::enumerate(ops)) {
    places[op] = place;
    problem.timePs.push_back(timeOf(op, rates));
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
      int64_t time = rates.timePs(0, 0, bytesOf(result.getType()));
      changes[place + 1] += time;
      changes[last + 1] -= time;
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
        return module.emitError("rules leave no op for stage ") << stage << " of " << stages << "; give one a pipeline_stage of " << stage;
      }
    }
    return module.emitError("the model has ") << count << " ops that can be cut, too few for " << stages << " stages; take fewer stages";
  }
  for (auto [place, op] : llvm::enumerate(ops)) {
    stageOf[op] = llvm::upper_bound(cuts, static_cast<int64_t>(place)) - cuts.begin();
  }
  return success();
}

// Finds the stage of each parameter, the first that takes it, and of what the optimizer keeps for it.
void StageAssignment::findHomes(func::FuncOp step) {
  llvm::StringSet<> written;
  for (auto function : module.getOps<func::FuncOp>()) {
    for (auto write : function.front().getOps<nn::WriteOp>()) {
      if (function.getSymName() != nn::kInit) {
        written.insert(write.getVariable());
      }
    }
  }
  llvm::StringMap<std::set<int64_t>> takers;
  for (auto read : step.front().getOps<nn::ReadOp>()) {
    StringRef name = read.getVariable();
    bool isWritten = written.contains(name) && !module.lookupSymbol<nn::VariableOp>(name).getInternal();
    for (Operation *user : read->getUsers()) {
      if (auto stage = stageOf.find(user); isWritten && stage != stageOf.end()) {
        takers[name].insert(stage->second);
      }
    }
  }
  for (auto &taken : takers) {
    homes[taken.first()] = *taken.second.begin();
    copies[taken.first()] = SmallVector<int64_t>(std::next(taken.second.begin()), taken.second.end());
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    StringRef name = variable.getSymName();
    if (!variable.getInternal() && written.contains(name) && !variable.getStateOf()) {
      homes.try_emplace(name, 0); // that nothing takes
    }
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (std::optional<StringRef> parameter = variable.getStateOf()) {
      homes[variable.getSymName()] = homes.lookup(*parameter);
    }
  }
}

// Gradients stand with the ops that they are of, and never behind what they take of other gradients, which come from the last stage.
void StageAssignment::assignBackward(func::FuncOp step) {
  nn::Phases phases(step.front());
  for (Operation &op : step.front().without_terminator()) {
    if (accessOf(&op) != Access::Fixed || phases.of(&op) == nn::Phase::Forward || isa<nn::WriteOp>(op)) {
      continue;
    }
    std::optional<int64_t> forward, backward, home;
    for (Value operand : op.getOperands()) {
      Operation *def = operand.getDefiningOp();
      auto read = dyn_cast_or_null<nn::ReadOp>(def);
      auto kept = read ? homeOf(read.getVariable()) : std::nullopt;
      home = most(home, kept);
      bool isForward = def && phases.of(def) == nn::Phase::Forward;
      (isForward ? forward : backward) = isForward ? most(forward, stageOfValue(operand)) : least(backward, stageOfValue(operand));
    }
    auto path = pathStages.find(nn::getPath(op.getLoc()));
    std::optional<int64_t> stage = path != pathStages.end() ? std::optional(path->second) : backward ? backward : most(forward, home);
    stage = least(stage, backward);
    if (auto gradient = dyn_cast<nn::GradientOp>(op)) {
      stage = homeOf(gradient.getVariable());
    } else if (phases.of(&op) == nn::Phase::Update && home) { // sums of gradients
      stage = home;
    }
    stageOf[&op] = stage.value_or(stages - 1);
  }
}

// Ops of an evaluation stand with those of the training step that have their paths, the others with what takes their results: the last
// stage tells these.
void StageAssignment::assignEvaluation(func::FuncOp function) {
  Operation *end = function.front().getTerminator();
  SmallVector<Operation *> ops;
  for (Operation &op : function.front().without_terminator()) {
    if (accessOf(&op) == Access::Fixed) {
      ops.push_back(&op);
    }
  }
  for (Operation *op : llvm::reverse(ops)) {
    std::optional<int64_t> first;
    for (Operation *user : op->getUsers()) {
      auto found = stageOf.find(user);
      first = least(first, user == end ? std::optional(stages - 1) : found == stageOf.end() ? std::nullopt : std::optional(found->second));
    }
    auto path = pathStages.find(nn::getPath(op->getLoc()));
    bool isResult = llvm::is_contained(op->getUsers(), end);
    stageOf[op] = path != pathStages.end() && !isResult ? path->second : first.value_or(stages - 1);
  }
  for (Operation *op : ops) { // never before what it takes
    for (Value operand : op->getOperands()) {
      auto read = operand.getDefiningOp<nn::ReadOp>();
      stageOf[op] = std::max(stageOf[op], most(stageOf[op], read ? homeOf(read.getVariable()) : stageOfValue(operand)).value_or(0));
    }
  }
}

// An op of the update stands where the largest of its operands is that is not made where it is used; of equal ones at the last stage.
void StageAssignment::assignUpdate(func::FuncOp function) {
  for (Operation &op : function.front().without_terminator()) {
    if (accessOf(&op) != Access::Fixed || isa<nn::WriteOp>(op)) {
      continue;
    }
    std::tuple<bool, int64_t, int64_t> largest(false, -1, 0); // is made elsewhere, bytes, stage
    for (Value operand : op.getOperands()) {
      Operation *def = operand.getDefiningOp();
      auto read = dyn_cast_or_null<nn::ReadOp>(def);
      if (std::optional<int64_t> stage = read ? homeOf(read.getVariable()) : stageOfValue(operand)) {
        largest = std::max(largest, {!expands(def), bytesOf(operand.getType()), *stage});
      }
    }
    stageOf[&op] = std::get<2>(largest);
  }
}

} // namespace ashlar::stage
