// SPDX-License-Identifier: Apache-2.0
//
// Forward ops first: rules, and prices for what they leave open. Gradients follow the ops that they are of, updates the parameters that
// they write.

#include "passes/stage/stage_assignment.h"

#include "dialects/dist/costs.h"
#include "dialects/dist/dist.h"
#include "dialects/dist/rules.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/paths.h"
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

FailureOr<StageAssignment> StageAssignment::create(ModuleOp module, const Cut &cut) {
  StageAssignment assignment(module, cut);
  return failed(assignment.run()) ? FailureOr<StageAssignment>() : std::move(assignment);
}

LogicalResult StageAssignment::run() {
  for (auto function : module.getOps<func::FuncOp>()) {
    findAccess(function);
  }
  auto step = module.lookupSymbol<func::FuncOp>(nn::kTrainStep);
  if (!takeAssigned(step) && (failed(readRules(step)) || failed(assignForward(step)))) {
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
  // First as if all that the compiler keeps for itself were counters. What turns out to be written by one program only (a sum of losses) is
  // read there, too.
  llvm::StringSet<> counters;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getInternal()) {
      counters.insert(variable.getSymName());
    }
  }
  auto isOfOneStage = [&](Operation *op) {
    auto read = dyn_cast<nn::ReadOp>(op);
    return read && !counters.contains(read.getVariable());
  };
  auto accessOfOp = [&](Operation &op) {
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      StringRef name = read.getVariable();
      return isStep && counters.contains(name) && written.contains(name) ? Access::Counted : Access::Free;
    }
    if (isa<dist::CollectiveOpInterface, nn::GradientOp, nn::WriteOp>(op) || !isPure(&op)) {
      return Access::Fixed;
    }
    // What only says when to compute what every program computes for itself is of no stage: several may take what is made of it.
    if (auto after = dyn_cast<dist::AfterOp>(op)) {
      Operation *def = after.getInput().getDefiningOp();
      return def && !isOfOneStage(def) && access.lookup(def) == Access::Free ? Access::Free : Access::Fixed;
    }
    Access found = Access::Free;
    for (Value operand : op.getOperands()) {
      Operation *def = operand.getDefiningOp();
      found = !def || isOfOneStage(def) ? Access::Fixed : std::max(found, access.lookup(def));
    }
    return found;
  };
  auto findAll = [&] {
    for (Operation &op : function.front().without_terminator()) {
      access[&op] = accessOfOp(op);
    }
  };
  findAll();
  for (auto write : function.front().getOps<nn::WriteOp>()) {
    Operation *def = write.getValue().getDefiningOp();
    if (isStep && (!def || accessOf(def) == Access::Fixed)) {
      counters.erase(write.getVariable());
    }
  }
  findAll();
}

// Gives the paths of forward ops the stages that rules have for them.
LogicalResult StageAssignment::readRules(func::FuncOp step) {
  auto settings = module->getAttrOfType<ArrayAttr>(dist::kStageRulesAttr);
  if (!settings) {
    return success();
  }
  SmallVector<StringRef> paths = nn::pathsOf(step.front());
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
             << "gives pipeline_stage " << stage << " but pipeline.stages is " << cut.stages
             << (cut.chunks == 1
                     ? ""
                     : " with " + std::to_string(cut.chunks) + " chunks each, so there are " + std::to_string(stages) + " virtual stages")
             << "; give one from 0 to " << stages - 1;
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

// Takes the stages that ashlar-assign-stages wrote on ops; returns whether it did. Copies of forward ops have them too.
bool StageAssignment::takeAssigned(func::FuncOp step) {
  nn::Phases phases(step.front());
  for (Operation &op : step.front().without_terminator()) {
    if (auto assigned = op.getAttrOfType<IntegerAttr>(dist::kVirtualStageAttr)) {
      stageOf[&op] = assigned.getInt();
      if (phases.of(&op) == nn::Phase::Forward) {
        notePath(&op);
      }
    }
  }
  return !stageOf.empty();
}

// Gradients of an op join the last of the ops with its path. Ops without one, collectives among them, have nothing to do with each other.
void StageAssignment::notePath(Operation *op) {
  if (nn::getPath(op->getLoc()).empty()) {
    return;
  }
  auto [found, isNew] = pathStages.try_emplace(nn::getPath(op->getLoc()), stageOf[op]);
  found->second = std::max(found->second, stageOf[op]);
}

// Returns the ops that take what the compiler keeps for itself in a variable of which one stage has the value: the sum of the losses.
SmallVector<Operation *> StageAssignment::summersOf(func::FuncOp step) const {
  llvm::StringSet<> sums;
  for (auto write : step.front().getOps<nn::WriteOp>()) {
    Operation *def = write.getValue().getDefiningOp();
    if (ModuleOp(module).lookupSymbol<nn::VariableOp>(write.getVariable()).getInternal() && def && accessOf(def) == Access::Fixed) {
      sums.insert(write.getVariable());
    }
  }
  SmallVector<Operation *> ops;
  for (auto read : step.front().getOps<nn::ReadOp>()) {
    if (sums.contains(read.getVariable())) {
      llvm::copy_if(read->getUsers(), std::back_inserter(ops), [&](Operation *user) { return accessOf(user) == Access::Fixed; });
    }
  }
  return ops;
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
  for (Value result : step.front().getTerminator()->getOperands()) { // the last stage tells the loss
    Operation *op = result.getDefiningOp();
    if (isRuled.contains(op) && stageOf[op] != stages - 1) {
      StringRef path = nn::getPath(op->getLoc());
      return step.emitError() << origins[path] << " puts " << describe(op) << ", which makes the loss, on " << noun() << " " << stageOf[op]
                              << ", but the last one tells it; let the rule match less, or give it pipeline_stage " << stages - 1;
    }
    stageOf[op] = stages - 1;
    isRuled.insert(op);
  }
  for (Operation *op : summersOf(step)) { // and adds it up
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
  llvm::for_each(ops, [&](Operation *op) { notePath(op); });
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
    problem.timePs.push_back(dist::opTimePs(op, rates));
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
  SymbolTable symbols(module); // a look-up in the module itself is linear
  llvm::StringMap<std::set<int64_t>> takers;
  for (auto read : step.front().getOps<nn::ReadOp>()) {
    StringRef name = read.getVariable();
    bool isWritten = written.contains(name) && !symbols.lookup<nn::VariableOp>(name).getInternal();
    for (Operation *user : read->getUsers()) {
      if (auto stage = stageOf.find(user); isWritten && stage != stageOf.end()) {
        takers[name].insert(stage->second);
      }
    }
  }
  for (auto &taken : takers) {
    firstTakers[taken.first()] = *taken.second.begin();
    llvm::SmallSetVector<int64_t, 4> others;
    for (int64_t virtualStage : taken.second) {
      others.insert(cut.stageOf(virtualStage));
    }
    others.remove(cut.stageOf(*taken.second.begin()));
    copies[taken.first()] = SmallVector<int64_t>(others.begin(), others.end());
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    StringRef name = variable.getSymName();
    if (!variable.getInternal() && written.contains(name) && !variable.getStateOf()) {
      firstTakers.try_emplace(name, 0); // that nothing takes
    }
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (std::optional<StringRef> parameter = variable.getStateOf()) {
      firstTakers[variable.getSymName()] = firstTakers.lookup(*parameter);
    }
  }
}

// Gradients stand with the ops that they are of, and never behind what they take of other gradients, which come from the last stage.
void StageAssignment::assignBackward(func::FuncOp step) {
  nn::Phases phases(step.front());
  for (Operation &op : step.front().without_terminator()) {
    const bool isDone = stageOf.contains(&op) || isa<nn::WriteOp, dist::AfterOp>(op); // an AfterOp is made where it is used
    if (accessOf(&op) != Access::Fixed || phases.of(&op) == nn::Phase::Forward || isDone) {
      continue;
    }
    std::optional<int64_t> forward, backward, home;
    for (Value operand : op.getOperands()) {
      auto after = operand.getDefiningOp<dist::AfterOp>();
      operand = after ? after.getInput() : operand;
      Operation *def = operand.getDefiningOp();
      auto read = dyn_cast_or_null<nn::ReadOp>(def);
      auto kept = read ? firstTakerOf(read.getVariable()) : std::nullopt;
      home = most(home, kept);
      bool isForward = def && phases.of(def) == nn::Phase::Forward;
      (isForward ? forward : backward) = isForward ? most(forward, stageOfValue(operand)) : least(backward, stageOfValue(operand));
    }
    auto path = pathStages.find(nn::getPath(op.getLoc()));
    std::optional<int64_t> stage = path != pathStages.end() ? std::optional(path->second) : backward ? backward : most(forward, home);
    stage = least(stage, backward);
    if (auto gradient = dyn_cast<nn::GradientOp>(op)) {
      stage = firstTakerOf(gradient.getVariable());
    } else if (phases.of(&op) == nn::Phase::Update && home) { // sums of gradients
      stage = home;
    }
    stageOf[&op] = stage.value_or(stages - 1);
  }
  // Equal gradients of several stages are one op, which has the path of one of them. It stands where it is taken first: at the last stage.
  for (Operation &op : llvm::reverse(step.front().without_terminator())) {
    if (!stageOf.contains(&op) || phases.of(&op) == nn::Phase::Forward) {
      continue;
    }
    SmallVector<Operation *> users(op.getUsers());
    for (size_t i = 0; i < users.size(); ++i) { // what says when is not taken
      if (auto after = dyn_cast<dist::AfterOp>(users[i])) {
        const bool isTaken = after.getInput().getDefiningOp() == &op;
        llvm::copy_if(after->getUsers(), std::back_inserter(users), [&](Operation *) { return isTaken; });
      } else if (stageOf.contains(users[i])) {
        stageOf[&op] = std::max(stageOf[&op], stageOf[users[i]]);
      }
    }
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
      stageOf[op] = std::max(stageOf[op], most(stageOf[op], read ? firstTakerOf(read.getVariable()) : stageOfValue(operand)).value_or(0));
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
