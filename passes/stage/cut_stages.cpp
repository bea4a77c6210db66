// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-cut-stages; see passes.td.

#include "passes/stage/passes.h"

#include "dialects/dist/stages.h"
#include "passes/stage/function_cut.h"
#include "passes/stage/schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::stage {

#define GEN_PASS_DEF_CUTSTAGESPASS
#include "passes/stage/passes.h.inc"

namespace {

// The names of values that cross, one for each value in all functions of a stage.
class PassedNames {
public:
  StringAttr operator()(Value value) {
    StringAttr &name = names[value];
    if (!name) {
      Operation *def = value.getDefiningOp();
      auto outputs = def->getAttrOfType<ArrayAttr>(nn::kOutputsAttr);
      StringRef path = nn::getPath(def->getLoc());
      std::string base = "passed:" + (outputs ? cast<StringAttr>(outputs[cast<OpResult>(value).getResultNumber()]).getValue() : path).str();
      std::string text = base;
      for (int64_t number = 1; !used.insert(text).second; ++number) {
        text = base + "#" + std::to_string(number);
      }
      name = StringAttr::get(value.getContext(), text);
    }
    return name;
  }

private:
  DenseMap<Value, StringAttr> names;
  llvm::StringSet<> used;
};

// Numbers what goes from one stage to another.
class Channels {
public:
  int64_t operator()(Value value, int64_t from, int64_t to) {
    auto [found, isNew] = numbers[{from, to}].try_emplace(value, numbers[{from, to}].size());
    return found->second;
  }

private:
  std::map<std::pair<int64_t, int64_t>, DenseMap<Value, int64_t>> numbers;
};

struct CutStagesPass : public impl::CutStagesPassBase<CutStagesPass> {
  using CutStagesPassBase::CutStagesPassBase;

  void runOnOperation() override {
    std::optional<SchedulePolicy> found = SchedulePolicy::find(schedule);
    if (!found || stages < 2 || microBatches < stages) {
      getOperation().emitError(
          "a pipeline has at least 2 stages, as many micro-batches, and a schedule GPIPE, ONE_F_ONE_B or ZERO_BUBBLE; got ")
          << stages.getValue() << " stages, " << microBatches.getValue() << " micro-batches, " << schedule.getValue();
      return signalPassFailure();
    }
    policy = *found;
    if (failed(cut())) {
      signalPassFailure();
    }
  }

private:
  LogicalResult cut() {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(nn::kTrainStep), update = module.lookupSymbol<func::FuncOp>(nn::kUpdate);
    if (!step || !update) {
      return module.emitError("no @train_step and @update to cut into stages; run ashlar-accumulate first");
    }
    FailureOr<StageAssignment> assigned = StageAssignment::create(module, stages);
    if (failed(assigned)) {
      return failure();
    }
    assignment = &*assigned;
    SmallVector<std::unique_ptr<FunctionCut>> cuts;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.getSymName() == nn::kInit) {
        continue;
      }
      cuts.push_back(std::make_unique<FunctionCut>(function, *assignment));
      StringRef name = function.getSymName();
      name == nn::kTrainStep ? divideStep(*cuts.back()) : name == nn::kUpdate ? divideUpdate(*cuts.back()) : divideEvaluation(*cuts.back());
      if (failed(cuts.back()->finish())) {
        return failure();
      }
    }
    for (auto &each : cuts) {
      addSharedWrites(*each, cuts);
      if (failed(each->finish())) { // what the writes take
        return failure();
      }
    }
    return emit(cuts);
  }

  // Forward ops of a stage are one program, backward ops another, or two where the schedule has weights apart.
  void divideStep(FunctionCut &cut) {
    Block &body = cut.getFunction().front();
    nn::Phases phases(body);
    auto programOf = [&](StepPhase phase, int64_t stage) -> StageProgram & {
      int64_t time = phase == StepPhase::Forward ? stage : phase == StepPhase::Backward ? 2 * stages - stage : 3 * stages + 1;
      return cut.program(stage, nameOf(phase), time);
    };
    llvm::DenseSet<Operation *> awaited = policy.splitsBackward() ? findAwaited(body, phases) : llvm::DenseSet<Operation *>();
    for (Operation &op : body.without_terminator()) {
      if (assignment->accessOf(&op) != Access::Fixed || isa<nn::WriteOp>(op)) {
        continue;
      }
      bool isForward = phases.of(&op) == nn::Phase::Forward;
      bool isLast = policy.splitsBackward() && !awaited.contains(&op);
      cut.add(&op, programOf(isForward ? StepPhase::Forward : isLast ? StepPhase::Weights : StepPhase::Backward, assignment->of(&op)));
    }
    for (int64_t stage = 0; stage < stages; ++stage) {
      programOf(StepPhase::Forward, stage); // counts micro-batches where there is nothing else to do
    }
    for (auto write : body.getOps<nn::WriteOp>()) {
      StageProgram *program = cut.programOf(write.getValue().getDefiningOp());
      if (program) {
        cut.addWrite(write, *program);
      }
    }
  }

  // Returns the ops of the backward phase that an op of another stage's waits for, directly or not. The first stage has none: what it
  // computes of the gradient of its input counts in the place of what others send.
  llvm::DenseSet<Operation *> findAwaited(Block &body, const nn::Phases &phases) {
    llvm::DenseSet<Operation *> awaited;
    SmallVector<Operation *> pending;
    for (Operation &op : body) {
      bool crosses = llvm::any_of(op.getUsers(), [&](Operation *user) {
        return phases.of(user) == nn::Phase::Backward && assignment->accessOf(user) == Access::Fixed &&
               assignment->of(user) != assignment->of(&op);
      });
      if (crosses && phases.of(&op) == nn::Phase::Backward) {
        pending.push_back(&op);
      }
    }
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val();
      if (phases.of(op) == nn::Phase::Backward && awaited.insert(op).second) {
        for (Value operand : op->getOperands()) {
          if (Operation *def = operand.getDefiningOp()) {
            pending.push_back(def);
          }
        }
      }
    }
    return awaited;
  }

  // An op stands one round behind the ops of other stages that it takes.
  void divideUpdate(FunctionCut &cut) {
    DenseMap<Operation *, int64_t> rounds;
    auto programOf = [&](int64_t round, int64_t stage) -> StageProgram & { return updateProgram(cut, round, stage); };
    auto roundOf = [&](Operation *op, int64_t stage) {
      int64_t round = 0;
      for (Value operand : op->getOperands()) {
        Operation *def = operand.getDefiningOp();
        if (def && rounds.contains(def)) {
          round = std::max(round, rounds[def] + (assignment->of(def) != stage));
        }
      }
      return round;
    };
    for (int64_t stage = 0; stage < stages; ++stage) {
      programOf(0, stage);
    }
    for (Operation &op : cut.getFunction().front().without_terminator()) {
      if (assignment->accessOf(&op) == Access::Fixed && !isa<nn::WriteOp>(op)) {
        rounds[&op] = roundOf(&op, assignment->of(&op));
        cut.add(&op, programOf(rounds[&op], assignment->of(&op)));
      }
    }
    llvm::StringMap<int64_t> lastReads; // by variable: the round of the last op that takes its value from before the step
    for (auto read : cut.getFunction().front().getOps<nn::ReadOp>()) {
      for (Operation *user : read->getUsers()) {
        lastReads[read.getVariable()] = std::max(lastReads[read.getVariable()], rounds.lookup(user));
      }
    }
    for (auto write : cut.getFunction().front().getOps<nn::WriteOp>()) {
      auto add = [&](int64_t stage) {
        cut.addWrite(write, programOf(std::max(roundOf(write, stage), lastReads.lookup(write.getVariable())), stage));
      };
      if (std::optional<int64_t> home = assignment->homeOf(write.getVariable())) {
        add(*home);
        llvm::for_each(assignment->copiesOf(write.getVariable()), add);
      }
    }
  }

  void divideEvaluation(FunctionCut &cut) {
    for (Operation &op : cut.getFunction().front().without_terminator()) {
      if (assignment->accessOf(&op) == Access::Fixed) {
        cut.add(&op, cut.program(assignment->of(&op), cut.getFunction().getSymName(), assignment->of(&op)));
      }
    }
  }

  // What the compiler counts is counted by each stage that uses it: a step's micro-batches by its first program; the rest by the last one,
  // or behind the one that has the number.
  void addSharedWrites(FunctionCut &cut, ArrayRef<std::unique_ptr<FunctionCut>> cuts) {
    const bool isStep = cut.getFunction().getSymName() == nn::kTrainStep;
    for (auto write : cut.getFunction().front().getOps<nn::WriteOp>()) {
      StageProgram *maker = cut.programOf(write.getValue().getDefiningOp());
      if (assignment->homeOf(write.getVariable()) || (isStep && maker)) {
        continue;
      }
      for (int64_t stage = 0; stage < stages; ++stage) {
        if (!uses(cuts, stage, write.getVariable())) {
          continue;
        }
        StageProgram &last = isStep ? *cut.programsOf(stage).front() : *cut.programsOf(stage).back();
        int64_t round = maker ? maker->time + (maker->stage != stage) : 0;
        cut.addWrite(write, isStep || round <= last.time ? last : updateProgram(cut, round, stage));
      }
    }
  }

  StageProgram &updateProgram(FunctionCut &cut, int64_t round, int64_t stage) {
    return cut.program(stage, nn::kUpdate.str() + (round == 0 ? "" : "_" + std::to_string(round)), round);
  }

  bool uses(ArrayRef<std::unique_ptr<FunctionCut>> cuts, int64_t stage, StringRef variable) {
    return llvm::any_of(cuts, [&](const std::unique_ptr<FunctionCut> &cut) {
      return llvm::any_of(cut->programsOf(stage),
                          [&](StageProgram *program) { return llvm::is_contained(cut->variablesRead(*program), variable); });
    });
  }

  LogicalResult emit(ArrayRef<std::unique_ptr<FunctionCut>> cuts) {
    ModuleOp module = getOperation();
    std::vector<Dependence> dependences;
    FailureOr<StageOrders> orders = makeOrders(cuts, dependences);
    if (failed(orders)) {
      return failure();
    }
    Channels channels;
    SmallVector<Operation *> old;
    for (Operation &op : *module.getBody()) {
      old.push_back(&op);
    }
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(module.getBody());
    PassedNames names;
    for (int64_t stage = 0; stage < stages; ++stage) {
      emitStage(builder, stage, cuts, (*orders)[stage], names, channels);
    }
    for (Operation *op : old) {
      op->erase();
    }
    module->removeAttr(dist::kStageRulesAttr);
    return success();
  }

  // Builds the orders, and proves that they end.
  FailureOr<StageOrders> makeOrders(ArrayRef<std::unique_ptr<FunctionCut>> cuts, std::vector<Dependence> &dependences) {
    StageOrders orders = buildOrders(policy, stages, microBatches);
    FunctionCut &step = **llvm::find_if(cuts, [](const auto &cut) { return cut->getFunction().getSymName() == nn::kTrainStep; });
    auto phaseOf = [&](const StageProgram &program) {
      return *llvm::find_if(policy.preference, [&](StepPhase phase) { return nameOf(phase) == program.name; });
    };
    for (int64_t stage = 0; stage < stages; ++stage) {
      SmallVector<StepPhase> present;
      for (StageProgram *program : step.programsOf(stage)) {
        present.push_back(phaseOf(*program));
        for (auto [value, maker] : program->imports) {
          if (maker->stage != stage) {
            dependences.push_back({maker->stage, phaseOf(*maker), stage, phaseOf(*program)});
          }
        }
      }
      llvm::erase_if(orders[stage], [&](const Action &action) { return !llvm::is_contained(present, action.phase); });
    }
    std::string deadlock;
    slots = chooseSlots(orders, dependences, deadlock);
    if (!deadlock.empty()) {
      return getOperation().emitError("the order of the pipeline's stages deadlocks: ") << deadlock;
    }
    return orders;
  }

  void emitStage(OpBuilder &builder, int64_t stage, ArrayRef<std::unique_ptr<FunctionCut>> cuts, ArrayRef<Action> order, PassedNames &names,
                 Channels &channels) {
    ModuleOp module = getOperation();
    auto made = ModuleOp::create(builder, module.getLoc(), "stage_" + std::to_string(stage));
    for (NamedAttribute attribute : module->getDiscardableAttrs()) {
      if (attribute.getName() != dist::kStageRulesAttr) {
        made->setAttr(attribute.getName(), attribute.getValue());
      }
    }
    made->setAttr(dist::kStageAttr, dist::StageAttr::get(&getContext(), stage, stages, slots[stage]));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    auto channel = [&](Value value, int64_t from, int64_t to) { return channels(value, from, to); };
    SmallVector<Attribute> updates;
    for (const std::unique_ptr<FunctionCut> &cut : cuts) {
      for (StageProgram *program : cut->programsOf(stage)) {
        cut->emit(builder, *program, [&](Value value) { return names(value); }, channel);
        if (cut->getFunction().getSymName() == nn::kUpdate) {
          updates.push_back(dist::RunAttr::get(&getContext(), builder.getStringAttr(program->name), 0));
        }
      }
    }
    made->setAttr(dist::kOrderAttr, orderAttr(builder, order, updates));
    emitVariables(builder, made);
  }

  // The order of the micro-batches, folded, and the update once.
  ArrayAttr orderAttr(OpBuilder &builder, ArrayRef<Action> order, ArrayRef<Attribute> updates) {
    FoldedOrder folded = fold(order);
    SmallVector<Attribute> parts;
    for (const Repetition &block : folded.blocks) {
      SmallVector<Attribute> runs;
      for (int64_t at = block.begin; at < block.end; ++at) {
        const Action &action = folded.actions[at];
        runs.push_back(dist::RunAttr::get(&getContext(), builder.getStringAttr(nameOf(action.phase)), action.microBatch));
      }
      parts.push_back(dist::RepeatAttr::get(&getContext(), builder.getArrayAttr(runs), block.count, block.stride));
    }
    parts.push_back(dist::RepeatAttr::get(&getContext(), builder.getArrayAttr(updates), 1, 0));
    return builder.getArrayAttr(parts);
  }

  // Adds the mesh, the variables that the stage's functions use, and their initial values.
  void emitVariables(OpBuilder &builder, ModuleOp stage) {
    llvm::StringSet<> used;
    stage.walk([&](Operation *op) {
      if (auto read = dyn_cast<nn::ReadOp>(op)) {
        used.insert(read.getVariable());
      } else if (auto write = dyn_cast<nn::WriteOp>(op)) {
        used.insert(write.getVariable());
      }
    });
    builder.setInsertionPointToStart(stage.getBody());
    for (Operation &op : *getOperation().getBody()) {
      auto variable = dyn_cast<nn::VariableOp>(op);
      if (isa<dist::MeshOp>(op) || (variable && (used.contains(variable.getSymName()) || isHeld(variable, stage)))) {
        builder.clone(op);
      }
    }
    auto init = getOperation().lookupSymbol<func::FuncOp>(nn::kInit);
    if (!init) {
      return;
    }
    auto own = cast<func::FuncOp>(builder.clone(*init));
    for (auto write : llvm::make_early_inc_range(own.front().getOps<nn::WriteOp>())) {
      if (!stage.lookupSymbol(write.getVariable())) {
        write.erase();
      }
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(own.front()))) {
      bool isRead = isa<nn::ReadOp>(op);
      if (isOpTriviallyDead(&op) || (isRead && op.use_empty())) {
        op.erase();
      }
    }
    for (auto read : own.front().getOps<nn::ReadOp>()) { // the seed
      if (!stage.lookupSymbol(read.getVariable())) {
        builder.setInsertionPointToStart(stage.getBody());
        builder.clone(*getOperation().lookupSymbol(read.getVariable()));
      }
    }
  }

  // Whether a variable that nothing uses is kept by the stage: each is by one.
  bool isHeld(nn::VariableOp variable, ModuleOp stage) {
    std::optional<int64_t> home = assignment->homeOf(variable.getSymName());
    return home == stage->getAttrOfType<dist::StageAttr>(dist::kStageAttr).getIndex();
  }

  SchedulePolicy policy;
  const StageAssignment *assignment = nullptr;
  std::vector<int64_t> slots; // by stage
};

} // namespace
} // namespace ashlar::stage
