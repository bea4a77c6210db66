// SPDX-License-Identifier: Apache-2.0
//
// See pipeline_runs.h.

#include "test/fuzz/pipeline_runs.h"

#include "compiler/reference/pipeline_run.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using ashlar::reference::ModuleRun;
using ashlar::reference::PipelineRun;
using ashlar::reference::Tensor;

namespace ashlar::fuzz {

namespace {

constexpr StringLiteral kInternalPrefix = "ashlar."; // of variables that a stage has only if it counts them

std::string variableName(nn::VariableOp variable, int64_t step) {
  return llvm::formatv("@{0} after step {1}", variable.getSymName(), step);
}

std::string outputName(func::FuncOp function, unsigned i, int64_t number) {
  return llvm::formatv("@{0} {1} of {2} {3}", function.getSymName(), i, nn::isEvaluation(function) ? "batch" : "step", number);
}

int64_t stepsOf(const PipelineCase &what) {
  return static_cast<int64_t>(what.batches.size()) / what.microBatches;
}

// The value that a step begins with in @ashlar.micro_batch.
Tensor firstMicroBatch(nn::VariableOp variable) {
  Tensor zero(variable.getTensorType());
  zero.setInt(0, 0);
  return zero;
}

StringRef nameOfArgument(func::FuncOp function, unsigned i) {
  return function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue();
}

// Returns the input of that name.
const Tensor &inputOf(func::FuncOp function, StringRef name, const std::vector<Tensor> &inputs) {
  unsigned i = 0;
  while (nameOfArgument(function, i) != name) {
    ++i;
    assert(i < function.getNumArguments() && "a stage takes an input that the program does not have");
  }
  return inputs[i];
}

// Adds the outputs of stages as the results of the program's function.
LogicalResult addOutputs(func::FuncOp function, int64_t number, const PipelineRun::Outputs &outputs, ModuleRun &run) {
  if (outputs.size() != function.getNumResults()) {
    return function.emitError("stages have ") << outputs.size() << " outputs, not " << function.getNumResults();
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr);
    auto found = outputs.find(name.getValue());
    if (found == outputs.end()) {
      return function.emitError("no stage makes the output ") << name;
    }
    run.results.push_back({outputName(function, i, number), found->second});
  }
  return success();
}

LogicalResult addVariables(ModuleOp program, int64_t step, PipelineRun &stages, ModuleRun &run) {
  for (auto variable : program.getOps<nn::VariableOp>()) {
    if (!stages.hasVariable(variable.getSymName()) && variable.getSymName().starts_with(kInternalPrefix)) {
      continue;
    }
    FailureOr<Tensor> value = stages.getVariable(variable.getSymName());
    if (failed(value)) {
      return failure();
    }
    run.variables.push_back({variableName(variable, step), std::move(*value)});
  }
  return success();
}

} // namespace

FailureOr<ModuleRun> runWhole(ModuleOp program, const PipelineCase &what, const reference::Observer &observer) {
  reference::Interpreter interpreter(program, /*numRanks=*/1, observer);
  for (auto &[name, value] : what.variables) {
    interpreter.setVariable(name, {value});
  }
  auto runAlone = [&](nn::ProgramRole role) {
    func::FuncOp function = nn::findProgram(program, role);
    return !function || succeeded(interpreter.run(function.getSymName(), {}));
  };
  if (what.runsInit && !runAlone(nn::ProgramRole::Init)) {
    return failure();
  }
  if (auto variable = program.lookupSymbol<nn::VariableOp>(nn::kMicroBatchVariable)) {
    interpreter.setVariable(nn::kMicroBatchVariable, {firstMicroBatch(variable)});
  }
  ModuleRun run;
  func::FuncOp train = nn::findProgram(program, nn::ProgramRole::TrainStep), update = nn::findProgram(program, nn::ProgramRole::Update),
               evaluate = nn::findProgram(program, nn::ProgramRole::EvalStep);
  auto add = [&](func::FuncOp function, int64_t number, std::vector<Tensor> &results) {
    for (auto [i, result] : llvm::enumerate(results)) {
      run.results.push_back({outputName(function, i, number), std::move(result)});
    }
  };
  for (int64_t step = 0; step < stepsOf(what); ++step) {
    if (!runAlone(nn::ProgramRole::Prepare)) {
      return failure();
    }
    for (int64_t i = 0; i < what.microBatches; ++i) {
      if (failed(reference::runGlobal(interpreter, train.getSymName(), what.batches[step * what.microBatches + i]))) {
        return failure();
      }
    }
    FailureOr<std::vector<Tensor>> results = reference::runGlobal(interpreter, update.getSymName(), {});
    if (failed(results)) {
      return failure();
    }
    add(update, step, *results);
    for (auto variable : program.getOps<nn::VariableOp>()) {
      FailureOr<Tensor> value = reference::getGlobalVariable(interpreter, variable.getSymName());
      if (failed(value)) {
        return failure();
      }
      run.variables.push_back({variableName(variable, step), std::move(*value)});
    }
  }
  for (auto [i, inputs] : llvm::enumerate(what.evaluations)) {
    FailureOr<std::vector<Tensor>> results = reference::runGlobal(interpreter, evaluate.getSymName(), inputs);
    if (failed(results)) {
      return failure();
    }
    add(evaluate, static_cast<int64_t>(i), *results);
  }
  return run;
}

FailureOr<ModuleRun> runStages(ModuleOp program, ModuleOp cut, int64_t ranks, const PipelineCase &what) {
  PipelineRun stages(cut, ranks);
  for (auto &[name, value] : what.variables) {
    stages.setVariable(name, value);
  }
  if (what.runsInit && failed(stages.runInit())) {
    return failure();
  }
  if (auto variable = program.lookupSymbol<nn::VariableOp>(nn::kMicroBatchVariable)) {
    stages.setVariable(nn::kMicroBatchVariable, firstMicroBatch(variable));
  }
  ModuleRun run;
  func::FuncOp step = nn::findProgram(program, nn::ProgramRole::TrainStep), update = nn::findProgram(program, nn::ProgramRole::Update),
               evaluation = nn::findProgram(program, nn::ProgramRole::EvalStep);
  for (int64_t number = 0; number < stepsOf(what); ++number) {
    auto outputs = stages.runStep(
        [&](StringRef name, int64_t microBatch) { return inputOf(step, name, what.batches[number * what.microBatches + microBatch]); });
    if (failed(outputs) || failed(addOutputs(update, number, *outputs, run)) || failed(addVariables(program, number, stages, run))) {
      return failure();
    }
  }
  if (what.evaluations.empty()) {
    return run;
  }
  auto outputs = stages.evaluate(static_cast<int64_t>(what.evaluations.size()),
                                 [&](StringRef name, int64_t batch) { return inputOf(evaluation, name, what.evaluations[batch]); });
  if (failed(outputs)) {
    return failure();
  }
  for (auto [i, found] : llvm::enumerate(*outputs)) {
    if (failed(addOutputs(evaluation, static_cast<int64_t>(i), found, run))) {
      return failure();
    }
  }
  return run;
}

} // namespace ashlar::fuzz
