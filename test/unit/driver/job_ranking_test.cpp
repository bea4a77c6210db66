// SPDX-License-Identifier: Apache-2.0
//
// What the search for the mesh of a deep model estimates with: equal layers, and closed forms of a step.

#include "compiler/planning/job_ranking.h"
#include "dialects/nn/nn.h"
#include "test/unit/reference/parsed_module.h"

#include "llvm/ADT/STLExtras.h"

#include <catch2/catch.hpp>

namespace ashlar::test::job_ranking_test {

using namespace mlir;

namespace {

// A model of four layers that add a product of their input to it, between an input layer and a sum. `tail` replaces what the sum reads.
OwningOpRef<ModuleOp> makeModel(const std::string &lastLayer = "nn.relu", const std::string &tail = "%h4, %h4") {
  std::string variables = "nn.variable @in.weight trainable : tensor<4x4xf32>\n";
  std::string ops = "%w = nn.read @in.weight : tensor<4x4xf32> loc(\"in.weight\")\n"
                    "%h0 = nn.matmul %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32> loc(\"in\")\n";
  for (int layer = 0; layer < 4; ++layer) {
    const std::string n = std::to_string(layer), name = "layer" + n, next = std::to_string(layer + 1);
    variables += "nn.variable @" + name + ".weight trainable : tensor<4x4xf32>\n";
    ops += "%w" + n + " = nn.read @" + name + ".weight : tensor<4x4xf32> loc(\"" + name + ".weight\")\n" + "%p" + n + " = nn.matmul %h" +
           n + ", %w" + n + " : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32> loc(\"" + name + ".fc\")\n" + "%r" + n + " = " +
           (layer == 3 ? lastLayer : "nn.relu") + " %p" + n + " : tensor<8x4xf32> loc(\"" + name + ".act\")\n" + "%h" + next +
           " = nn.add %h" + n + ", %r" + n + " : tensor<8x4xf32> loc(\"" + name + ".residual\")\n";
  }
  return parse(variables +
               "func.func @forward(%x: tensor<8x4xf32> {nn.name = \"x\"}) -> tensor<8x4xf32> attributes {nn.program = "
               "#nn.program<run>} {\n" +
               ops + "%y = nn.add " + tail + " : tensor<8x4xf32> loc(\"sum\")\nreturn %y : tensor<8x4xf32>\n}\n");
}

std::vector<std::string> variablesOf(ModuleOp model) {
  std::vector<std::string> names;
  for (auto variable : model.getOps<nn::VariableOp>()) {
    names.push_back(variable.getSymName().str());
  }
  return names;
}

int64_t countLayers(ModuleOp model) {
  return planning::findEqualLayers(*model.getOps<func::FuncOp>().begin()).count();
}

job::Job pipelineOf(int32_t stages, int32_t microBatches, job::Pipeline::Schedule schedule, int32_t chunks) {
  job::Job job;
  job::Pipeline &pipeline = *job.mutable_pipeline();
  pipeline.set_stages(stages);
  pipeline.set_micro_batches(microBatches);
  pipeline.set_schedule(schedule);
  pipeline.set_chunks(chunks);
  return job;
}

} // namespace

TEST_CASE("equal layers: layers are compared op by op", "[ranking]") {
  CHECK(countLayers(*makeModel()) == 4);
  CHECK(countLayers(*makeModel("nn.exp")) == 3); // the last layer computes something else
}

TEST_CASE("equal layers: a row ends where a result is read elsewhere", "[ranking]") {
  CHECK(countLayers(*makeModel("nn.relu", "%h4, %h2")) == 2);
  CHECK(countLayers(*makeModel("nn.relu", "%h4, %r2")) == 3);
  // The last layer's inner results may be read as well: those of the last one kept take their places.
  CHECK(countLayers(*makeModel("nn.relu", "%h4, %p3")) == 4);
}

TEST_CASE("equal layers: a model keeps its first layers, and what read the last one reads them", "[ranking]") {
  OwningOpRef<ModuleOp> model = makeModel("nn.relu", "%h4, %p3");
  CHECK(planning::keepLayers(*model, 2));
  CHECK(variablesOf(*model) == std::vector<std::string>{"in.weight", "layer0.weight", "layer1.weight"});
  auto forward = cast<func::FuncOp>(model->lookupSymbol("forward"));
  Operation *sum = forward.front().getTerminator()->getOperand(0).getDefiningOp();
  CHECK(nn::getPath(sum->getOperand(0).getDefiningOp()->getLoc()) == "layer1.residual");
  CHECK(nn::getPath(sum->getOperand(1).getDefiningOp()->getLoc()) == "layer1.fc");
  CHECK(succeeded(model->verify()));
}

TEST_CASE("equal layers: the first and the last layer have their own counterparts", "[ranking]") {
  OwningOpRef<ModuleOp> model = makeModel();
  const planning::LayerNames names(planning::findEqualLayers(*model->getOps<func::FuncOp>().begin()));
  auto all = [&](int64_t from, int64_t to) {
    std::vector<std::string> found;
    for (int64_t layer = 0; layer < from; ++layer) {
      found.push_back(names.counterpart("layer" + std::to_string(layer) + ".weight", from, to));
    }
    return found;
  };
  CHECK(all(4, 3) == std::vector<std::string>{"layer0.weight", "layer1.weight", "layer1.weight", "layer2.weight"});
  CHECK(all(2, 4) == std::vector<std::string>{"layer0.weight", "layer3.weight"});
  CHECK(names.counterpart("layer2.residual", 4, 2) == "layer1.residual");
  CHECK(names.counterpart("in.weight", 4, 2) == "in.weight");
}

TEST_CASE("estimates: layers are on a line", "[ranking]") {
  const planning::LayerNumbers few{50, 7, 1, 20, 300}, more{90, 9, 1, 40, 500};
  const planning::LayerNumbers all = planning::extrapolate(few, 2, more, 4, 10);
  CHECK(all.microBatchPs == 210);
  CHECK(all.oncePs == 15);
  CHECK(all.receivePs == 1);
  CHECK(all.slotBytes == 100);
  CHECK(all.fixedBytes == 1100);
  CHECK(planning::extrapolate(more, 2, few, 4, 10).microBatchPs == 50); // layers that cost less than nothing cost nothing
}

// A micro-batch of 40 ps a stage; p = 4, m = 8: 8 * 40 ps of work, in a step with bubbles of 27.3, 15.8 and 11.1 %.
TEST_CASE("estimates: steps of pipelines by closed forms", "[ranking]") {
  const planning::LayerNumbers whole{160, 0, 0, 8, 4000};
  auto stepOf = [&](job::Pipeline::Schedule schedule, int32_t chunks) {
    return planning::estimateStep(pipelineOf(4, 8, schedule, chunks), whole, 16).stepPs;
  };
  CHECK(stepOf(job::Pipeline::ONE_F_ONE_B, 1) == 440);
  CHECK(stepOf(job::Pipeline::GPIPE, 1) == 440);
  CHECK(stepOf(job::Pipeline::INTERLEAVED, 2) == 380);
  CHECK(stepOf(job::Pipeline::ZERO_BUBBLE, 1) == 360);
  // 16 layers over 3 x 2 virtual stages: the largest have 3 of 32 / 6 = 5.33 halves; a micro-batch takes 53.3 ps in the mean and 60 ps
  // there.
  CHECK(planning::estimateStep(pipelineOf(3, 6, job::Pipeline::INTERLEAVED, 2), whole, 16).stepPs == 420);
  // Once a step, a quarter of 20 ps a stage; a message of 3 ps each way and micro-batch, for both chunks.
  CHECK(planning::estimateStep(pipelineOf(4, 8, job::Pipeline::INTERLEAVED, 2), {160, 20, 3, 8, 4000}, 16).stepPs == 9.5 * 46 + 5);
}

TEST_CASE("estimates: memory of stages by micro-batches in flight", "[ranking]") {
  const planning::LayerNumbers whole{160, 0, 0, 8, 4000};
  auto bytesOf = [&](job::Pipeline::Schedule schedule, int32_t chunks) {
    return planning::estimateStep(pipelineOf(4, 16, schedule, chunks), whole, 16).bytes;
  };
  CHECK(bytesOf(job::Pipeline::ONE_F_ONE_B, 1) == 1000 + 4 * 2);
  CHECK(bytesOf(job::Pipeline::ZERO_BUBBLE, 1) == 1000 + 4 * 2);
  CHECK(bytesOf(job::Pipeline::INTERLEAVED, 2) == 1000 + 8 * 2);
  CHECK(bytesOf(job::Pipeline::GPIPE, 1) == 1000 + 16 * 2);
}

} // namespace ashlar::test::job_ranking_test
