// SPDX-License-Identifier: Apache-2.0
//
// ashlar-join-runs on random programs of several devices: two steps in the order of the module, before and after.

#include "compiler/reference/equivalence.h"
#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/nn.h"
#include "passes/analysis/costs.h"
#include "passes/stage/passes.h"
#include "test/fuzz/oracle.h"
#include "test/fuzz/random_pipeline.h"
#include "test/fuzz/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

namespace ashlar::fuzz::join_runs_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

constexpr int kSteps = 2;

// Returns random global inputs of a function of a partitioned module.
std::vector<Tensor> inputsOf(func::FuncOp function, std::mt19937_64 &generator) {
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto global = function.getArgAttrOfType<TypeAttr>(i, dist::kGlobalTypeAttr);
    Type type = global ? global.getValue() : function.getArgumentTypes()[i];
    inputs.push_back(reference::randomTensor(cast<RankedTensorType>(type), generator, /*intLimit=*/4));
  }
  return inputs;
}

// The outcome of some steps: the results of each run, and the variables that hold no terms of sums.
std::vector<Tensor> runSteps(ModuleOp module) {
  reference::Interpreter interpreter(module, dist::findMesh(module).getMesh().numDevices());
  for (auto variable : module.getOps<nn::VariableOp>()) {
    std::mt19937_64 generator(nn::streamOf(variable.getSymName()));
    auto global = variable->getAttrOfType<TypeAttr>(dist::kGlobalTypeAttr);
    auto type = cast<RankedTensorType>(global ? global.getValue() : variable.getTensorType());
    bool isNumber = variable.getSymName() == nn::kMicroBatchVariable;
    reference::setGlobalVariable(interpreter, variable.getSymName(), isNumber ? Tensor(type) : reference::randomTensor(type, generator, 4));
  }
  std::vector<Tensor> outcome;
  auto run = [&](dist::RunAttr each, int64_t microBatch) {
    auto function = module.lookupSymbol<func::FuncOp>(each.getProgram());
    std::mt19937_64 generator(microBatch);
    auto results = reference::runGlobal(interpreter, each.getProgram(), inputsOf(function, generator));
    REQUIRE(succeeded(results));
    llvm::append_range(outcome, *results);
  };
  for (int step = 0; step < kSteps; ++step) {
    for (auto part : module->getAttrOfType<ArrayAttr>(dist::kOrderAttr).getAsRange<dist::RepeatAttr>()) {
      for (int64_t round = 0; round < part.getCount(); ++round) {
        for (auto each : part.getRuns().getAsRange<dist::RunAttr>()) {
          run(each, each.getMicroBatch() + round * part.getStride());
        }
      }
    }
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    auto layout = variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
    if (layout && layout.getLayout().isPartial()) {
      continue;
    }
    FailureOr<Tensor> value = reference::getGlobalVariable(interpreter, variable.getSymName());
    REQUIRE(succeeded(value));
    outcome.push_back(std::move(*value));
  }
  return outcome;
}

} // namespace

TEST_CASE("fuzz: ashlar-join-runs changes no bit of two steps", "[fuzz][passes]") {
  int joined = 0;
  ProgramOptions options;
  options.varied = true; // with micro-batches
  for (uint64_t seed = 1; joined < 25; ++seed) {
    INFO("seed " << seed);
    REQUIRE(seed < 4000);
    MLIRContext &context = test::context();
    OwningOpRef<ModuleOp> program = randomProgram(context, seed, options);
    if (!(*program)->hasAttr(dist::kOrderAttr) || pipelineOf(*program)) {
      continue;
    }
    for (auto variable : program->getOps<nn::VariableOp>()) { // parameters of one fusion id may need each other, which is an error
      variable->removeAttr(dist::kCommFusionAttr);
    }
    PassManager passes(&context);
    addDistPasses(passes, *program);
    REQUIRE(succeeded(passes.run(*program)));
    dist::MeshOp mesh = dist::findMesh(*program);
    SmallVector<analysis::Link> links(mesh.getMesh().getAxes().size());
    for (analysis::Link &link : links) {
      link.movesBeside = true;
    }
    mesh.setCostsAttr(analysis::costsOf(&context, links));
    OwningOpRef<ModuleOp> after = program->clone();
    PassManager join(&context);
    join.addPass(stage::createJoinRunsPass());
    REQUIRE(succeeded(join.run(*after)));
    if ((*after)->getAttr(dist::kOrderAttr) == (*program)->getAttr(dist::kOrderAttr)) {
      continue;
    }
    ++joined;
    std::vector<Tensor> expected = runSteps(*program), found = runSteps(*after);
    REQUIRE(expected.size() == found.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(reference::maxDifference(expected[i], found[i]) == 0);
    }
  }
}

} // namespace ashlar::fuzz::join_runs_test
