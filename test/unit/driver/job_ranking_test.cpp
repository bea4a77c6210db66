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
  const planning::LayerNumbers few{50, 60, 70, 7, 1, 20, 300, 8, 2}, more{90, 80, 70, 9, 1, 40, 500, 8, 4};
  const planning::ModelNumbers all = planning::extrapolate(few, 2, more, 4, 10);
  CHECK(all.layers == 10);
  CHECK(all.layer.forwardPs == 20);
  CHECK(all.whole.forwardPs == 210);
  CHECK(all.whole.backwardPs == 140);
  CHECK(all.whole.weightsPs == 70);
  CHECK(all.whole.oncePs == 15);
  CHECK(all.whole.receivePs == 1);
  CHECK(all.whole.slotBytes == 100);
  CHECK(all.whole.fixedBytes == 1100);
  CHECK(all.whole.messageBytes == 8);
  CHECK(all.whole.onceReceivePs == 10);
  CHECK(planning::extrapolate(more, 2, few, 4, 10).whole.forwardPs == 50); // layers that cost less than nothing cost nothing
}

TEST_CASE("estimates: what is in no layer goes with the last halves of layers", "[ranking]") {
  using Halves = std::vector<int64_t>;
  CHECK(planning::shareHalves(4, 3, 0) == Halves{3, 2, 3});
  CHECK(planning::shareHalves(4, 3, 1) == Halves{3, 3, 2});
  CHECK(planning::shareHalves(4, 3, 4) == Halves{4, 4, 0});
  CHECK(planning::shareHalves(8, 4, 0) == Halves{4, 4, 4, 4});
  CHECK(planning::shareHalves(8, 4, 0.5) == Halves{4, 4, 4, 4}); // the others would have one half more
  CHECK(planning::shareHalves(8, 4, 2) == Halves{5, 4, 4, 3});
  CHECK(planning::shareHalves(8, 1, 2) == Halves{16});
}

TEST_CASE("estimates: of two stages in ZERO_BUBBLE only the last one has a backward pass in two programs", "[ranking]") {
  planning::Forecast forecast;
  forecast.stages.resize(2);
  forecast.stages[0].weightsPs = 60;
  forecast.stages[0].slotBytes = 5;
  forecast.stages[1].backwardPs = 40;
  forecast.stages[1].weightsPs = 20;
  forecast.stages[1].slotBytes = 8;
  const planning::LayerNumbers numbers = planning::numbersOf(forecast);
  CHECK(numbers.backwardPs == 80);
  CHECK(numbers.weightsPs == 40);
  CHECK(numbers.slotBytes == 16);
}

TEST_CASE("estimates: messages lie in the slots of both stages, apart from what layers pass on", "[ranking]") {
  planning::Forecast forecast;
  forecast.stages.resize(2);
  for (planning::StageForecast &stage : forecast.stages) {
    stage.slotBytes = 10;
    stage.messageBytes = 4;
    stage.onceReceivePs = 3;
  }
  const planning::LayerNumbers numbers = planning::numbersOf(forecast);
  CHECK(numbers.slotBytes == 12);
  CHECK(numbers.messageBytes == 8);
  CHECK(numbers.onceReceivePs == 6);
  forecast.stages[1].weightsPs = 1; // ZERO_BUBBLE: the first stage as the last one
  forecast.stages[1].slotBytes = 11;
  CHECK(planning::numbersOf(forecast).slotBytes == 14);
}

// A micro-batch of 12 + 24 ps a stage; p = 4, m = 8: 8 * 36 ps of work, in a step with bubbles of 27.3 and 15.8 %.
TEST_CASE("estimates: steps of pipelines are played", "[ranking]") {
  const planning::ModelNumbers model{{48, 96, 0, 0, 0, 8, 4000}, {3, 6}, 16};
  auto stepOf = [&](job::Pipeline::Schedule schedule, int32_t chunks) {
    return planning::estimateStep(pipelineOf(4, 8, schedule, chunks), model).stepPs;
  };
  CHECK(stepOf(job::Pipeline::ONE_F_ONE_B, 1) == 11 * 36);
  CHECK(stepOf(job::Pipeline::GPIPE, 1) == 11 * 36);
  CHECK(stepOf(job::Pipeline::INTERLEAVED, 2) == 9.5 * 36);
  // Gradients of weights fill a part of the wait.
  const planning::ModelNumbers split{{48, 48, 48, 0, 0, 8, 4000}, {3, 3, 3}, 16};
  const int64_t zeroBubble = planning::estimateStep(pipelineOf(4, 8, job::Pipeline::ZERO_BUBBLE, 1), split).stepPs;
  CHECK((zeroBubble > 8 * 36 && zeroBubble < 11 * 36));
  // 16 layers and a head as long as one, 4 stages: 8 halves, and in the last one with the head 10: the step is that of stages of 9.
  const planning::ModelNumbers headed{{102, 204, 0, 0, 0, 8, 4000}, {6, 12}, 16};
  const int64_t step = planning::estimateStep(pipelineOf(4, 800, job::Pipeline::ONE_F_ONE_B, 1), headed).stepPs;
  CHECK((step > 800 * 81 && step < 804 * 81));
  // Once a step, a quarter of 20 ps; a message of 3 ps for each phase but the first one and the last one, there and back.
  const planning::ModelNumbers sends{{48, 96, 0, 20, 6, 8, 4000}, {3, 6}, 16};
  CHECK(planning::estimateStep(pipelineOf(4, 1, job::Pipeline::ONE_F_ONE_B, 1), sends).stepPs == 4 * 36 + 6 * 3 + 5);
  // Three of four stages send once a step what one of two does in 6 ps for half of the layers.
  const planning::ModelNumbers norm{{48, 96, 0, 20, 6, 8, 4000, 0, 6}, {3, 6}, 16};
  CHECK(planning::estimateStep(pipelineOf(4, 1, job::Pipeline::ONE_F_ONE_B, 1), norm).stepPs == 4 * 36 + 6 * 3 + 5 + 9);
}

TEST_CASE("estimates: memory of stages by micro-batches in flight", "[ranking]") {
  const planning::ModelNumbers model{{48, 96, 0, 0, 0, 8, 4000}, {3, 6}, 16};
  auto bytesOf = [&](job::Pipeline::Schedule schedule, int32_t chunks) {
    return planning::estimateStep(pipelineOf(4, 16, schedule, chunks), model).bytes;
  };
  CHECK(bytesOf(job::Pipeline::ONE_F_ONE_B, 1) == 1000 + 4 * 2);
  CHECK(bytesOf(job::Pipeline::ZERO_BUBBLE, 1) == 1000 + 4 * 2);
  CHECK(bytesOf(job::Pipeline::INTERLEAVED, 2) == 1000 + 8 * 2);
  CHECK(bytesOf(job::Pipeline::GPIPE, 1) == 1000 + 16 * 2);
  // Messages of 3 bytes at each end of a cut: a stage between two others has two ends a chunk.
  const planning::ModelNumbers sends{{48, 96, 0, 0, 0, 8, 4000, 6}, {3, 6}, 16};
  auto withMessages = [&](int32_t stages, job::Pipeline::Schedule schedule, int32_t chunks) {
    return planning::estimateStep(pipelineOf(stages, 16, schedule, chunks), sends).bytes;
  };
  CHECK(withMessages(4, job::Pipeline::ONE_F_ONE_B, 1) == 1000 + 4 * (2 + 2 * 3));
  CHECK(withMessages(4, job::Pipeline::INTERLEAVED, 2) == 1000 + 8 * (2 + 4 * 3));
  CHECK(withMessages(4, job::Pipeline::INTERLEAVED, 4) == 1000 + 8 * (2 + 8 * 3));
  CHECK(withMessages(2, job::Pipeline::ONE_F_ONE_B, 1) == 2000 + 2 * (4 + 3));
  // 3 stages of 32 halves: the largest have 11.
  CHECK(planning::estimateStep(pipelineOf(3, 3, job::Pipeline::ONE_F_ONE_B, 1), model).bytes ==
        static_cast<uint64_t>((4000 + 8 * 3) / 3.0 * (11 * 3 / 32.0)));
}

} // namespace ashlar::test::job_ranking_test
