// SPDX-License-Identifier: Apache-2.0
//
// Forward ops first (forward_stages.cpp). Gradients follow their ops, updates their parameters.

#include "passes/stage/stage_assignment.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/paths.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <set>

using namespace mlir;

namespace ashlar::stage {
namespace {

std::optional<int64_t> least(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

std::optional<int64_t> most(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::max(*a, *b) : a ? a : b;
}

} // namespace

bool expands(Operation *op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute && compute.getCost() == Cost::Free && op->getNumOperands() > 0 && llvm::all_of(op->getOperandTypes(), [&](Type type) {
           return cast<ShapedType>(type).getRank() == 0 || byteSize(cast<ShapedType>(type)) < totalByteSize(op->getResultTypes());
         });
}

FailureOr<StageAssignment> StageAssignment::create(ModuleOp module, const Cut &cut) {
  StageAssignment assignment(module, cut);
  return failed(assignment.run()) ? FailureOr<StageAssignment>() : std::move(assignment);
}

LogicalResult StageAssignment::run() {
  func::FuncOp step = nn::findProgram(module, nn::ProgramRole::TrainStep);
  findAccess(step); // first: it finds the variables that one stage keeps
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function != step) {
      findAccess(function);
    }
  }
  if (!takeAssigned(step) && (failed(readRules(step)) || failed(assignForward(step)))) {
    return failure();
  }
  findHomes(step);
  assignBackward(step);
  for (auto write : step.front().getOps<nn::WriteOp>()) {
    if (kept.contains(write.getVariable())) {
      firstTakers[write.getVariable()] = stageOfValue(write.getValue()).value_or(stages - 1);
    }
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    if (nn::hasRole(function, nn::ProgramRole::EvalStep)) {
      assignEvaluation(function);
    }
    if (nn::hasRole(function, nn::ProgramRole::Update)) {
      assignUpdate(function);
    }
  }
  return success();
}

void StageAssignment::findAccess(func::FuncOp function) {
  if (nn::hasRole(function, nn::ProgramRole::Prepare)) { // each stage computes what it uses
    llvm::for_each(function.front().without_terminator(), [&](Operation &op) { access[&op] = Access::Free; });
    return;
  }
  const bool isStep = nn::hasRole(function, nn::ProgramRole::TrainStep);
  llvm::StringSet<> written;
  for (auto write : function.front().getOps<nn::WriteOp>()) {
    written.insert(write.getVariable());
  }
  // First as if all variables of the compiler were counters. A variable that is written by one program only (a sum of losses) is read
  // there, too.
  llvm::StringSet<> counters;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getInternal() && !kept.contains(variable.getSymName())) {
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
    // Ops that only order a computation which every program repeats have no stage: several may take its results.
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
    if (isStep && (!def || accessOf(def) == Access::Fixed) && counters.erase(write.getVariable())) {
      kept.insert(write.getVariable());
    }
  }
  findAll();
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

// Finds the stage of each parameter, the first that takes it, and of its optimizer state.
void StageAssignment::findHomes(func::FuncOp step) {
  llvm::StringSet<> written;
  for (auto function : module.getOps<func::FuncOp>()) {
    for (auto write : function.front().getOps<nn::WriteOp>()) {
      if (!nn::hasRole(function, nn::ProgramRole::Init)) {
        written.insert(write.getVariable());
      }
    }
  }
  SymbolTable symbols(module);        // a look-up in the module itself is linear
  llvm::StringMap<StringRef> sources; // of what @prepare makes of parameters that are updated
  for (nn::VariableOp variable : nn::preparedVariables(module)) {
    if (written.contains(*variable.getStateOf())) {
      sources[variable.getSymName()] = *variable.getStateOf();
    }
  }
  llvm::StringMap<std::set<int64_t>> takers;
  for (auto read : step.front().getOps<nn::ReadOp>()) {
    StringRef name = read.getVariable();
    bool isWritten = written.contains(name) && !symbols.lookup<nn::VariableOp>(name).getInternal();
    for (Operation *user : read->getUsers()) {
      if (auto stage = stageOf.find(user); isWritten && stage != stageOf.end()) {
        takers[name].insert(stage->second);
        if (auto source = sources.find(name); source != sources.end()) { // it is made where it is taken
          takers[source->second].insert(stage->second);
        }
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
    std::optional<StringRef> parameter = variable.getStateOf();
    if (parameter && !sources.contains(variable.getSymName()) && firstTakers.contains(*parameter)) {
      firstTakers[variable.getSymName()] = firstTakers.lookup(*parameter);
    }
  }
}

// Whether an op makes one value of several gradients from one stage, for little: there it stands, so that one value is sent in their place.
bool StageAssignment::joinsGradients(Operation *op, const nn::Phases &phases) const {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  if (!compute || compute.getCost() != Cost::Simple || op->getNumOperands() < 2) {
    return false;
  }
  std::optional<int64_t> from = stageOfValue(op->getOperand(0));
  return from && op->getOperand(0) != op->getOperand(1) && llvm::all_of(op->getOperands(), [&](Value operand) {
           Operation *def = operand.getDefiningOp();
           return def && phases.of(def) == nn::Phase::Backward && stageOfValue(operand) == from &&
                  operand.getType() == op->getResultTypes().front();
         });
}

// Gradients stand with their ops, and never after other gradients that they take, which come from the last stage.
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
    if (backward && joinsGradients(&op, phases)) {
      stage = backward;
    }
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
    for (size_t i = 0; i < users.size(); ++i) { // an event is no operand
      if (auto after = dyn_cast<dist::AfterOp>(users[i])) {
        const bool isTaken = after.getInput().getDefiningOp() == &op;
        llvm::copy_if(after->getUsers(), std::back_inserter(users), [&](Operation *) { return isTaken; });
      } else if (stageOf.contains(users[i])) {
        stageOf[&op] = std::max(stageOf[&op], stageOf[users[i]]);
      }
    }
  }
}

// Ops of an evaluation stand with the ops of the training step that have their paths, the others with the users of their results: outputs
// of the last stage. Those of messages have theirs.
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
    auto assigned = op->getAttrOfType<IntegerAttr>(dist::kVirtualStageAttr);
    stageOf[op] = assigned ? assigned.getInt() : path != pathStages.end() && !isResult ? path->second : first.value_or(stages - 1);
  }
  for (Operation *op : ops) { // never before its operands
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
        largest = std::max(largest, {!expands(def), byteSize(cast<ShapedType>(operand.getType())), *stage});
      }
    }
    stageOf[&op] = std::get<2>(largest);
  }
}

} // namespace ashlar::stage
