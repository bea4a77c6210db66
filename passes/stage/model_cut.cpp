// SPDX-License-Identifier: Apache-2.0
//
// See model_cut.h. The step is divided by phase and virtual stage, the update by rounds of communication, the evaluation by virtual stage.

#include "passes/stage/model_cut.h"

#include "dialects/dist/dist.h"

using namespace mlir;

namespace ashlar::stage {

FailureOr<ModelCut> ModelCut::create(ModuleOp module, const StageAssignment &assignment, bool splitsBackward) {
  ModelCut cut(assignment, splitsBackward);
  return failed(cut.run(module)) ? FailureOr<ModelCut>() : std::move(cut);
}

LogicalResult ModelCut::run(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    const nn::ProgramRole role = nn::programOf(function).getRole();
    if (role == nn::ProgramRole::Init) {
      continue;
    }
    FunctionCut &made = *functions.emplace_back(std::make_unique<FunctionCut>(function, *assignment));
    if (role == nn::ProgramRole::TrainStep) {
      step = &made;
      divideStep(made);
    } else if (role == nn::ProgramRole::Update) {
      divideUpdate(made);
    } else if (role == nn::ProgramRole::EvalStep) {
      divideEvaluation(made);
    } else if (role != nn::ProgramRole::Prepare) { // that follows from what the others read
      return function.emitOpError("@") << function.getName() << " of role " << nn::programOf(function) << " has no place in a pipeline";
    }
    if (failed(made.finish())) {
      return failure();
    }
  }
  module.walk([&](nn::ReadOp read) { isRead.insert(read.getVariable()); });
  for (const std::unique_ptr<FunctionCut> &each : functions) { // first: these read counters
    if (addUnreadWrites(*each) && failed(each->finish())) {
      return failure();
    }
  }
  for (const std::unique_ptr<FunctionCut> &each : functions) {
    nn::hasRole(each->getFunction(), nn::ProgramRole::Prepare) ? dividePreparation(*each) : addSharedWrites(*each);
    if (failed(each->finish())) { // what the writes take
      return failure();
    }
    each->takeUnusedInputs();
  }
  return success();
}

// Programs of the step, in the order in which a micro-batch meets them: forward, back, and what nobody waits for.
StageProgram &ModelCut::stepProgram(FunctionCut &function, StepPhase phase, int64_t virtualStage) const {
  const int64_t count = cut.virtualStages();
  const int64_t time = phase == StepPhase::Forward ? virtualStage : (phase == StepPhase::Backward ? 2 : 4) * count - virtualStage;
  return function.program(cut.stageOf(virtualStage),
                          nn::ProgramAttr::get(function.getFunction().getContext(), roleOf(phase), cut.chunkOf(virtualStage)), time);
}

// Forward ops of a virtual stage are one program, backward ops another, or two where the schedule has weights apart.
void ModelCut::divideStep(FunctionCut &function) {
  Block &body = function.getFunction().front();
  nn::Phases phases(body);
  llvm::DenseSet<Operation *> awaited = splitsBackward ? findAwaited(body, phases) : llvm::DenseSet<Operation *>();
  for (Operation &op : body.without_terminator()) {
    if (assignment->accessOf(&op) != Access::Fixed || isa<nn::WriteOp, dist::AfterOp>(op)) {
      continue;
    }
    bool isForward = phases.of(&op) == nn::Phase::Forward;
    bool isLast = splitsBackward && !awaited.contains(&op);
    StepPhase phase = isForward ? StepPhase::Forward : isLast ? StepPhase::Weights : StepPhase::Backward;
    function.add(&op, stepProgram(function, phase, assignment->of(&op)));
  }
  for (int64_t each = 0; each < cut.virtualStages(); ++each) {
    stepProgram(function, StepPhase::Forward, each); // counts micro-batches where there is nothing else to do
  }
  for (auto write : body.getOps<nn::WriteOp>()) {
    StageProgram *program = function.programOf(write.getValue().getDefiningOp());
    // What no stage makes, an input for example, becomes the value of a variable at the variable's stage.
    std::optional<int64_t> home = program ? std::nullopt : assignment->firstTakerOf(write.getVariable());
    if (program || home) {
      function.addWrite(write, program ? *program : stepProgram(function, StepPhase::Backward, *home));
    }
  }
}

// Returns the ops of the backward phase that an op of another virtual stage waits for, directly or not. The first one has none: what it
// computes of the gradient of its input counts in the place of what others send.
llvm::DenseSet<Operation *> ModelCut::findAwaited(Block &body, const nn::Phases &phases) const {
  llvm::DenseSet<Operation *> awaited;
  SmallVector<Operation *> pending;
  for (Operation &op : body) {
    bool crosses = llvm::any_of(op.getUsers(), [&](Operation *user) {
      return phases.of(user) == nn::Phase::Backward && assignment->accessOf(user) == Access::Fixed && !isa<dist::AfterOp>(user) &&
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
void ModelCut::divideUpdate(FunctionCut &function) {
  DenseMap<Operation *, int64_t> rounds;
  auto programOf = [&](int64_t round, int64_t stage) -> StageProgram & { return updateProgram(function, round, stage); };
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
  for (int64_t stage = 0; stage < cut.stages; ++stage) {
    programOf(0, stage);
  }
  for (Operation &op : function.getFunction().front().without_terminator()) {
    if (assignment->accessOf(&op) == Access::Fixed && !isa<nn::WriteOp>(op)) {
      rounds[&op] = roundOf(&op, assignment->of(&op));
      function.add(&op, programOf(rounds[&op], assignment->of(&op)));
    }
  }
  for (OpOperand &result : function.getFunction().front().getTerminator()->getOpOperands()) {
    if (auto read = result.get().getDefiningOp<nn::ReadOp>()) {
      function.addResult(result.getOperandNumber(), programOf(0, assignment->homeOf(read.getVariable()).value_or(cut.stages - 1)));
    }
  }
  llvm::StringMap<int64_t> lastReads; // by variable: the round of the last op that takes its value from before the step
  for (auto read : function.getFunction().front().getOps<nn::ReadOp>()) {
    for (Operation *user : read->getUsers()) {
      lastReads[read.getVariable()] = std::max(lastReads[read.getVariable()], rounds.lookup(user));
    }
  }
  for (auto write : function.getFunction().front().getOps<nn::WriteOp>()) {
    auto add = [&](int64_t stage) {
      function.addWrite(write, programOf(std::max(roundOf(write, stage), lastReads.lookup(write.getVariable())), stage));
    };
    if (std::optional<int64_t> home = assignment->homeOf(write.getVariable())) {
      add(*home);
      llvm::for_each(assignment->copiesOf(write.getVariable()), add);
    }
  }
}

void ModelCut::divideEvaluation(FunctionCut &function) {
  for (Operation &op : function.getFunction().front().without_terminator()) {
    if (assignment->accessOf(&op) == Access::Fixed) {
      const int64_t at = assignment->of(&op);
      function.add(&op, function.program(cut.stageOf(at), function.roleOf(cut.chunkOf(at)), at));
    }
  }
}

// What no program reads, a number for the log, is written by one stage: its maker's, or the last one with a part of the function.
bool ModelCut::addUnreadWrites(FunctionCut &function) {
  const bool isStep = nn::hasRole(function.getFunction(), nn::ProgramRole::TrainStep);
  bool isAny = false;
  for (auto write : function.getFunction().front().getOps<nn::WriteOp>()) {
    StageProgram *maker = function.programOf(write.getValue().getDefiningOp());
    if (isRead.contains(write.getVariable()) || assignment->homeOf(write.getVariable()) || (isStep && maker)) {
      continue;
    }
    int64_t stage = maker ? maker->stage : cut.stages - 1;
    while (stage > 0 && function.programsOf(stage).empty()) {
      --stage;
    }
    addSharedWrite(function, write, maker, stage);
    isAny = true;
  }
  return isAny;
}

// What the compiler counts is counted by each stage that uses it: a step's micro-batches by its first program; the rest by the last one,
// or behind the one that has the number.
void ModelCut::addSharedWrites(FunctionCut &function) {
  const bool isStep = nn::hasRole(function.getFunction(), nn::ProgramRole::TrainStep);
  const std::vector<llvm::DenseSet<StringRef>> reads = variablesRead();
  for (auto write : function.getFunction().front().getOps<nn::WriteOp>()) {
    StageProgram *maker = function.programOf(write.getValue().getDefiningOp());
    if (assignment->homeOf(write.getVariable()) || (isStep && maker)) {
      continue;
    }
    for (int64_t stage = 0; stage < cut.stages; ++stage) {
      if (reads[stage].contains(write.getVariable())) {
        addSharedWrite(function, write, maker, stage);
      }
    }
  }
}

void ModelCut::addSharedWrite(FunctionCut &function, nn::WriteOp write, const StageProgram *maker, int64_t stage) const {
  const bool isStep = nn::hasRole(function.getFunction(), nn::ProgramRole::TrainStep);
  StageProgram &last = isStep ? *function.programsOf(stage).front() : *function.programsOf(stage).back();
  int64_t round = maker ? maker->time + (maker->stage != stage) : 0;
  function.addWrite(write, isStep || round <= last.time ? last : updateProgram(function, round, stage));
}

// Each stage computes what its programs read.
void ModelCut::dividePreparation(FunctionCut &function) {
  const std::vector<llvm::DenseSet<StringRef>> reads = variablesRead();
  for (auto write : function.getFunction().front().getOps<nn::WriteOp>()) {
    for (int64_t stage = 0; stage < cut.stages; ++stage) {
      if (reads[stage].contains(write.getVariable())) {
        function.addWrite(write, function.program(stage, function.roleOf(/*chunk=*/0), 0));
      }
    }
  }
}

StageProgram &ModelCut::updateProgram(FunctionCut &function, int64_t round, int64_t stage) const {
  return function.program(stage, nn::ProgramAttr::get(function.getFunction().getContext(), nn::ProgramRole::Update, /*chunk=*/0, round),
                          round);
}

std::vector<llvm::DenseSet<StringRef>> ModelCut::variablesRead() const {
  std::vector<llvm::DenseSet<StringRef>> reads(cut.stages);
  for (const std::unique_ptr<FunctionCut> &function : functions) {
    for (int64_t stage = 0; stage < cut.stages; ++stage) {
      for (StageProgram *program : function->programsOf(stage)) {
        const SmallVector<StringRef> names = function->variablesRead(*program);
        reads[stage].insert(names.begin(), names.end());
      }
    }
  }
  return reads;
}

} // namespace ashlar::stage
