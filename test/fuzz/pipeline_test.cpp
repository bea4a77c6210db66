// SPDX-License-Identifier: Apache-2.0
//
// ashlar-cut-stages on random models: what the stages compute, run in their order, is bit by bit what the whole model does.

#include "compiler/reference/pipeline_run.h"
#include "dialects/nn/nn.h"
#include "passes/stage/passes.h"
#include "test/fuzz/random_training.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <set>

using namespace mlir;
using namespace ashlar;
using namespace ashlar::fuzz;
using ashlar::reference::RankTensors;
using ashlar::reference::Tensor;

namespace {

constexpr int kSteps = 2; // the second one finds what the first one left in slots and variables

// Returns the module cut into stages; nothing, with the fault, when that is refused.
OwningOpRef<ModuleOp> cutInto(ModuleOp module, int64_t stages, int64_t microBatches, const char *schedule, std::string &fault) {
  OwningOpRef<ModuleOp> model = module.clone();
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &error) {
    fault += error.str();
    return success();
  });
  stage::CutStagesPassOptions options;
  options.stages = stages;
  options.microBatches = microBatches;
  options.schedule = schedule;
  PassManager passes(module.getContext());
  passes.addPass(stage::createCutStagesPass(options));
  return succeeded(passes.run(*model)) ? std::move(model) : OwningOpRef<ModuleOp>();
}

// The inputs of each micro-batch of each step.
std::vector<std::vector<Tensor>> drawBatches(ModuleOp module, int64_t microBatches, uint64_t seed) {
  std::vector<std::vector<Tensor>> batches;
  for (int64_t i = 0; i < kSteps * microBatches; ++i) {
    batches.push_back(drawInputs(module, "train_step", seed + static_cast<uint64_t>(i)));
  }
  return batches;
}

// Compares steps of the stages with those of the model. Returns what is wrong.
std::string compareSteps(ModuleOp model, ModuleOp cut, const Values &variables, int64_t microBatches, uint64_t seed) {
  std::vector<std::vector<Tensor>> batches = drawBatches(model, microBatches, seed);
  auto step = model.lookupSymbol<func::FuncOp>("train_step");
  Values whole = variables;
  reference::PipelineRun pipeline(cut);
  for (auto &[name, value] : variables) {
    pipeline.setVariable(name, RankTensors{value});
  }
  for (int64_t number = 0; number < kSteps; ++number) {
    std::vector<Tensor> loss;
    for (int64_t i = 0; i < microBatches; ++i) {
      loss = run(model, "train_step", batches[static_cast<size_t>(number * microBatches + i)], whole);
    }
    run(model, "update", {}, whole);
    auto outputs = pipeline.runStep([&](StringRef name, int64_t microBatch) {
      for (unsigned i = 0; i < step.getNumArguments(); ++i) {
        if (step.getArgAttrOfType<StringAttr>(i, nn::kNameAttr).getValue() == name) {
          return RankTensors{batches[static_cast<size_t>(number * microBatches + microBatch)][i]};
        }
      }
      return RankTensors();
    });
    if (failed(outputs)) {
      return "the stages cannot be run";
    }
    if (outputs->size() != 1 || reference::maxDifference(outputs->begin()->second.front(), loss.front()) != 0) {
      return "another loss in step " + std::to_string(number);
    }
    for (auto &[name, value] : whole) {
      bool isAlike = true;
      const RankTensors *found = pipeline.getVariable(name, isAlike);
      if (found && (!isAlike || reference::maxDifference(found->front(), value) != 0)) {
        return "another @" + name + " after step " + std::to_string(number) + (isAlike ? "" : ", and not alike in all stages");
      }
      if (!found && !StringRef(name).starts_with("ashlar.")) {
        return "no stage has @" + name;
      }
    }
  }
  return "";
}

// Whether a stage computes nothing.
bool hasIdleStage(ModuleOp cut) {
  return llvm::any_of(cut.getOps<ModuleOp>(), [](ModuleOp stage) {
    auto forward = stage.lookupSymbol<func::FuncOp>("forward");
    return llvm::all_of(forward.front(),
                        [](Operation &op) { return !isa<ComputeOpInterface>(op) || op.hasTrait<OpTrait::ConstantLike>(); });
  });
}

// Whether several stages take one parameter.
bool hasCopies(ModuleOp cut) {
  std::set<StringRef> names;
  bool result = false;
  for (auto stage : cut.getOps<ModuleOp>()) {
    for (auto variable : stage.getOps<nn::VariableOp>()) {
      result |= variable.getTrainable() && !names.insert(variable.getSymName()).second;
    }
  }
  return result;
}

} // namespace

TEST_CASE("pipeline: ashlar-cut-stages makes stages that compute what the model does", "[fuzz][passes]") {
  int compared = 0, clipped = 0, tied = 0;
  auto accumulates = [](const job::Job &job) { return job.accumulate() > 1; };
  forEachTraining(60, varied(), accumulates, [&](Training &training) {
    ModuleOp model = *training.stages.back().module;
    for (const char *schedule : {"GPIPE", "ONE_F_ONE_B", "ZERO_BUBBLE"}) {
      for (int64_t stages : {2, 3}) {
        // As many as the model divides by, or more: the sums of both are the same sums.
        const int64_t microBatches = std::max<int64_t>(training.job.accumulate(), stages);
        std::string fault;
        OwningOpRef<ModuleOp> cut = cutInto(model, stages, microBatches, schedule, fault);
        INFO(stages << " stages, " << schedule << " " << fault);
        if (!cut) {
          CHECK(StringRef(fault).contains("too few for"));
          continue;
        }
        Values variables = training.variables;
        drawVariables(model, /*seed=*/1, variables);
        variables["ashlar.micro_batch"].setInt(0, 0);
        CHECK(compareSteps(model, *cut, variables, microBatches, /*seed=*/7) == "");
        ++compared;
        clipped += training.job.optimizer().has_clip_global_norm();
        tied += hasCopies(*cut);
        CHECK_FALSE(hasIdleStage(*cut));
      }
    }
  });
  CHECK(compared > 100);
  CHECK(clipped > 10);
  CHECK(tied > 10);
}
