// SPDX-License-Identifier: Apache-2.0
//
// See random_training.h.

#include "test/fuzz/random_training.h"

#include "compiler/pipelines/pipelines.h"
#include "dialects/nn/nn.h"
#include "test/fuzz/random_layout.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace mlir;
using ashlar::reference::Tensor;

namespace ashlar::fuzz {

size_t Training::indexOf(StringRef pass) {
  for (size_t i = 1; i < snapshots.size(); ++i) {
    if (snapshots[i].pass == pass) {
      return i;
    }
  }
  FAIL("no pass " << pass.str());
  return 0;
}

void drawVariables(ModuleOp module, uint64_t seed, Values &values) {
  for (auto variable : module.getOps<nn::VariableOp>()) {
    std::mt19937_64 generator(seed ^ nn::streamOf(variable.getSymName()));
    Tensor value = reference::randomTensor(variable.getTensorType(), generator, /*intLimit=*/4);
    if (variable.getSymName().ends_with(".moment2")) { // a mean of squares; not near 0, where a root has large errors
      for (int64_t i = 0; i < value.getNumElements(); ++i) {
        value.setFloat(i, 0.25 + std::abs(value.getFloat(i)));
      }
    }
    values.emplace(variable.getSymName().str(), value);
  }
}

std::vector<Tensor> drawInputs(ModuleOp module, StringRef function, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<Tensor> inputs;
  for (Type type : module.lookupSymbol<func::FuncOp>(function).getArgumentTypes()) {
    inputs.push_back(reference::randomTensor(cast<RankedTensorType>(type), generator, /*intLimit=*/4));
  }
  return inputs;
}

std::vector<Tensor> run(ModuleOp module, StringRef function, ArrayRef<Tensor> inputs, Values &variables,
                        const reference::Observer &observer) {
  reference::Interpreter interpreter(module, /*numRanks=*/1, observer);
  for (auto variable : module.getOps<nn::VariableOp>()) {
    interpreter.setVariable(variable.getSymName(), {variables.at(variable.getSymName().str())});
  }
  auto arguments = inputs.take_front(module.lookupSymbol<func::FuncOp>(function).getNumArguments());
  FailureOr<std::vector<Tensor>> results = reference::runGlobal(interpreter, function, arguments);
  REQUIRE(succeeded(results));
  for (auto variable : module.getOps<nn::VariableOp>()) {
    variables[variable.getSymName().str()] = interpreter.getVariable(variable.getSymName())->front();
  }
  return *results;
}

std::vector<Tensor> evaluate(ModuleOp module, StringRef function, ArrayRef<Tensor> inputs, Values variables) {
  return run(module, function, inputs, variables);
}

std::optional<double> ownDecay(const job::Job &job, const std::string &name) {
  for (const job::Rule &rule : job.rules()) {
    if (rule.match() == name) {
      return rule.weight_decay();
    }
  }
  return std::nullopt;
}

namespace {

// Adds rules about the weight decay of a few parameters to a job.
void drawDecays(ModuleOp module, uint64_t seed, job::Job &job) {
  Dice dice(~seed);
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getTrainable() && dice.oneIn(4)) {
      job::Rule &rule = *job.add_rules();
      rule.set_match(variable.getSymName().str());
      rule.set_weight_decay(dice.roll(4) / 16.0);
    }
  }
}

// Returns the training of a seed through all its passes; none when the seed does not train.
std::optional<Training> trainingOf(uint64_t seed, const ProgramOptions &options) {
  RandomModel model = randomModel(test::context(), seed, options);
  if (!model.job.has_loss()) {
    return std::nullopt;
  }
  Training training;
  drawDecays(*model.module, seed, model.job);
  pipelines::attachSettings(*model.module, model.job);
  training.job = model.job;
  training.snapshots = snapshotPasses(*model.module, [&](OpPassManager &passes) { pipelines::addTrainPasses(passes, model.job); });
  ModuleOp programs = training.after("ashlar-loss");
  training.inputs = drawInputs(programs, "train_step", seed);
  if (auto evaluated = programs.lookupSymbol<func::FuncOp>("eval_step"); evaluated.getNumArguments() > training.inputs.size()) {
    training.samples = training.inputs.back().getType().getDimSize(0);
    training.inputs.emplace_back(cast<RankedTensorType>(evaluated.getArgumentTypes().back()));
    training.inputs.back().setInt(0, training.samples);
  }
  drawVariables(training.after("ashlar-optimizer"), seed, training.variables);
  return training;
}

} // namespace

void forEachTraining(int count, const ProgramOptions &options, llvm::function_ref<bool(const job::Job &)> isWanted,
                     llvm::function_ref<void(Training &)> check) {
  for (uint64_t seed = 1; count > 0; ++seed) {
    INFO("seed " << seed);
    REQUIRE(seed < 2000);
    if (std::optional<Training> training = trainingOf(seed, options); training && isWanted(training->job)) {
      --count;
      check(*training);
    }
  }
}

bool isAny(const job::Job &) {
  return true;
}

ProgramOptions varied() {
  ProgramOptions options;
  options.varied = true;
  return options;
}

bool areEqual(ArrayRef<Tensor> x, ArrayRef<Tensor> y) {
  return x.size() == y.size() &&
         llvm::all_of(llvm::zip_equal(x, y), [](auto pair) { return reference::maxDifference(std::get<0>(pair), std::get<1>(pair)) == 0; });
}

OwningOpRef<ModuleOp> returnGradients(ModuleOp module, std::vector<std::string> &names) {
  OwningOpRef<ModuleOp> copy = module.clone();
  auto function = copy->lookupSymbol<func::FuncOp>("train_step");
  Operation *end = function.front().getTerminator();
  for (auto gradient : function.front().getOps<nn::GradientOp>()) {
    names.push_back(gradient.getVariable().str());
    end->insertOperands(end->getNumOperands(), gradient.getResult());
  }
  function.setType(FunctionType::get(module.getContext(), function.getArgumentTypes(), end->getOperandTypes()));
  return copy;
}

} // namespace ashlar::fuzz
