// SPDX-License-Identifier: Apache-2.0
//
// Training steps with repeats in them, of all passes of passes/train: a step in micro-batches is the step on the whole batch, whose repeats
// are written out first; an evaluation of several batches is that of all samples.

#include "test/unit/reference/parsed_module.h"

#include "compiler/reference/interpreter.h"
#include "dialects/nn/paths.h"
#include "dialects/nn/phases.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat.h"
#include "passes/train/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <map>

namespace ashlar::test::repeat_training_test {

using namespace mlir;
using reference::Tensor;

namespace {

constexpr int64_t kSteps = 3, kSamples = 2, kParts = 3;

std::string replaced(std::string text, const std::map<std::string, std::string> &values) {
  for (const auto &[from, to] : values) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

// A model on `samples` samples, of a body and what comes before and behind it. B: the samples; 3 steps of rows of 4.
std::string function(const std::string &name, const std::string &role, const std::string &body, int64_t samples) {
  const double count = static_cast<double>(samples);
  return replaced("func.func " + name + R"((%x: tensor<Bx3x4xf64> {nn.name = "x"}, %mask: tensor<Bxf64> {nn.name = "mask"})
      -> (tensor<f64> {nn.name = "loss"}) attributes {nn.program = #nn.program<ROLE>} {
  %w = nn.read @w : tensor<4x4xf64>
  %b = nn.read @b : tensor<4xf64>
  %xs = nn.transpose %x [1, 0, 2] : tensor<Bx3x4xf64> -> tensor<3xBx4xf64>
  %zeros = nn.constant dense<0.0> : tensor<Bx4xf64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %share = nn.constant dense<SHARE> : tensor<f64>
)" + body + "}\n",
                  {{"ROLE", role}, {"SHARE", std::to_string(1 / count)}, {"Bx", std::to_string(samples) + "x"}});
}

// `growth`: how many times the samples the larger model has; 1: there is none.
std::string model(const std::string &body, int64_t samples, int64_t growth = 1) {
  return "nn.variable @ashlar.seed internal : tensor<i64>\n"
         "nn.variable @ashlar.step internal : tensor<i64> = dense<0> : tensor<i64>\n"
         "nn.variable @w trainable : tensor<4x4xf64> = #nn.uniform<-0.5 : f64, 0.5 : f64>\n"
         "nn.variable @b trainable : tensor<4xf64> = #nn.uniform<-0.5 : f64, 0.5 : f64>\n" +
         function("@forward", "run", body, samples) +
         (growth > 1 ? function("private @larger_forward", "larger_run", body, samples * growth) : "");
}

// States of samples, whose last one is summed behind the loop.
const std::string kStates = R"(
  %last = nn.repeat 3 carried(%h = %zeros) sliced(%row = %xs) captured(%v = %w, %c = %b)
      : (tensor<Bx4xf64>, tensor<3xBx4xf64>, tensor<4x4xf64>, tensor<4xf64>) -> tensor<Bx4xf64> {
    %p = nn.matmul %h, %v : tensor<Bx4xf64>, tensor<4x4xf64> -> tensor<Bx4xf64>
    %cs = nn.broadcast %c dims = [1] : tensor<4xf64> -> tensor<Bx4xf64>
    %q = nn.add %p, %cs : tensor<Bx4xf64>
    %s = nn.add %q, %row : tensor<Bx4xf64>
    %next = nn.tanh %s : tensor<Bx4xf64>
    nn.yield %next : tensor<Bx4xf64>
  }
  %sum = nn.reduce sum %last dims = [0, 1] : tensor<Bx4xf64> -> tensor<f64>
  %loss = nn.mul %sum, %share : tensor<f64>
  return %loss : tensor<f64>
)";

// A loss that the loop sums, from a parameter on, and a stack of states whose samples stand in dim 1.
const std::string kSums = R"(
  %bs = nn.reduce sum %b dims = [0] : tensor<4xf64> -> tensor<f64>
  %last, %total, %rows = nn.repeat 3 reversed carried(%h = %zeros, %t = %bs) sliced(%row = %xs) captured(%v = %w, %f = %share)
      : (tensor<Bx4xf64>, tensor<f64>, tensor<3xBx4xf64>, tensor<4x4xf64>, tensor<f64>) -> (tensor<Bx4xf64>, tensor<f64>, tensor<3xBx4xf64>) {
    %p = nn.matmul %row, %v : tensor<Bx4xf64>, tensor<4x4xf64> -> tensor<Bx4xf64>
    %s = nn.add %p, %h : tensor<Bx4xf64>
    %next = nn.sigmoid %s : tensor<Bx4xf64>
    %square = nn.mul %next, %next : tensor<Bx4xf64>
    %term = nn.reduce sum %square dims = [0, 1] : tensor<Bx4xf64> -> tensor<f64>
    %part = nn.mul %term, %f : tensor<f64>
    %more = nn.add %t, %part : tensor<f64>
    nn.yield %next, %more, %next : tensor<Bx4xf64>, tensor<f64>, tensor<Bx4xf64>
  }
  %all = nn.reduce sum %rows dims = [0, 1, 2] : tensor<3xBx4xf64> -> tensor<f64>
  %mean = nn.mul %all, %share : tensor<f64>
  %loss = nn.add %total, %mean : tensor<f64>
  return %loss : tensor<f64>
)";

// A branch that runs and one that does not, by a parameter; the samples go through both.
const std::string kConditions = R"(
  %most = nn.reduce max %b dims = [0] : tensor<4xf64> -> tensor<f64>
  %large = nn.constant dense<100.0> : tensor<f64>
  %isSmall = nn.compare lt %most, %large : tensor<f64> -> tensor<i1>
  %isLarge = nn.not %isSmall : tensor<i1>
  %rows = nn.reduce sum %x dims = [1] : tensor<Bx3x4xf64> -> tensor<Bx4xf64>
  %y = nn.repeat 1 when %isSmall carried(%a = %zeros) captured(%row = %rows, %v = %w)
      : (tensor<Bx4xf64>, tensor<Bx4xf64>, tensor<4x4xf64>, tensor<i1>) -> tensor<Bx4xf64> {
    %p = nn.matmul %row, %v : tensor<Bx4xf64>, tensor<4x4xf64> -> tensor<Bx4xf64>
    %t = nn.tanh %p : tensor<Bx4xf64>
    nn.yield %t : tensor<Bx4xf64>
  }
  %z = nn.repeat 1 when %isLarge carried(%a = %y) captured(%row = %rows) : (tensor<Bx4xf64>, tensor<Bx4xf64>, tensor<i1>) -> tensor<Bx4xf64> {
    %e = nn.exp %row : tensor<Bx4xf64>
    %s = nn.add %e, %a : tensor<Bx4xf64>
    nn.yield %s : tensor<Bx4xf64>
  }
  %bs = nn.broadcast %b dims = [1] : tensor<4xf64> -> tensor<Bx4xf64>
  %q = nn.mul %z, %bs : tensor<Bx4xf64>
  %sum = nn.reduce sum %q dims = [0, 1] : tensor<Bx4xf64> -> tensor<f64>
  %loss = nn.mul %sum, %share : tensor<f64>
  return %loss : tensor<f64>
)";

// Each iteration divides by how many samples count, which all take from outside; a parameter is added at first, and another one each time.
// A loop within the loop has samples too.
const std::string kQuotients = R"(
  %count = nn.reduce sum %mask dims = [0] : tensor<Bxf64> -> tensor<f64>
  %start = nn.reshape %xs : tensor<3xBx4xf64> -> tensor<3xBx4xf64>
  %first = nn.reduce max %b dims = [0] : tensor<4xf64> -> tensor<f64>
  %total = nn.repeat 3 carried(%t = %first) sliced(%row = %start) captured(%v = %w, %n = %count, %m = %mask, %c = %b)
      : (tensor<f64>, tensor<3xBx4xf64>, tensor<4x4xf64>, tensor<f64>, tensor<Bxf64>, tensor<4xf64>) -> tensor<f64> {
    %inner = nn.repeat 2 carried(%h = %row) captured(%u = %v) : (tensor<Bx4xf64>, tensor<4x4xf64>) -> tensor<Bx4xf64> {
      %p = nn.matmul %h, %u : tensor<Bx4xf64>, tensor<4x4xf64> -> tensor<Bx4xf64>
      %next = nn.tanh %p : tensor<Bx4xf64>
      nn.yield %next : tensor<Bx4xf64>
    }
    %ms = nn.broadcast %m dims = [0] : tensor<Bxf64> -> tensor<Bx4xf64>
    %counted = nn.mul %inner, %ms : tensor<Bx4xf64>
    %sum = nn.reduce sum %counted dims = [0, 1] : tensor<Bx4xf64> -> tensor<f64>
    %mean = nn.div %sum, %n : tensor<f64>
    %k = nn.reduce sum %c dims = [0] : tensor<4xf64> -> tensor<f64>
    %both = nn.add %mean, %k : tensor<f64>
    %more = nn.add %t, %both : tensor<f64>
    nn.yield %more : tensor<f64>
  }
  return %total : tensor<f64>
)";

// Elements of samples drop out, others in each iteration.
const std::string kDrawn = R"(
  %seed = nn.read @ashlar.seed : tensor<i64>
  %step = nn.read @ashlar.step : tensor<i64>
  %streams = nn.constant dense<[3, 4, 5]> : tensor<3xi32>
  %last = nn.repeat 3 carried(%h = %zeros) sliced(%row = %xs, %stream = %streams) captured(%v = %w, %r = %seed, %a = %step)
      : (tensor<Bx4xf64>, tensor<3xBx4xf64>, tensor<3xi32>, tensor<4x4xf64>, tensor<i64>, tensor<i64>) -> tensor<Bx4xf64> {
    %p = nn.matmul %row, %v : tensor<Bx4xf64>, tensor<4x4xf64> -> tensor<Bx4xf64>
    %index = nn.index [4, 1] : tensor<Bx4xi64>
    %u = nn.random uniform %index, %r, %a, %stream : (tensor<Bx4xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<Bx4xf64>
    %kept = nn.mul %p, %u : tensor<Bx4xf64>
    %next = nn.add %kept, %h : tensor<Bx4xf64>
    nn.yield %next : tensor<Bx4xf64>
  }
  %bounded = nn.tanh %last : tensor<Bx4xf64>
  %sum = nn.reduce sum %bounded dims = [0, 1] : tensor<Bx4xf64> -> tensor<f64>
  %loss = nn.mul %sum, %share : tensor<f64>
  return %loss : tensor<f64>
)";

// Makes a training step of a model. `unrolls`: writes repeats out first.
OwningOpRef<ModuleOp> stepOf(const std::string &text, int64_t microBatches, int64_t samples, bool unrolls) {
  OwningOpRef<ModuleOp> module = parse(text);
  PassManager passes(module->getContext());
  if (unrolls) {
    passes.addNestedPass<func::FuncOp>(train::createUnrollRepeatsPass());
  }
  train::LossPassOptions loss;
  loss.kind = train::LossKind::ModelOutput;
  loss.microBatches = microBatches;
  passes.addPass(train::createLossPass(loss));
  passes.addPass(train::createAutodiffPass());
  passes.addNestedPass<func::FuncOp>(train::createSumBehindRepeatsPass());
  passes.addPass(train::createOptimizerPass());
  if (microBatches > 1) {
    train::AccumulatePassOptions accumulate;
    accumulate.count = microBatches;
    accumulate.samples = samples;
    passes.addPass(train::createAccumulatePass(accumulate));
  }
  passes.addPass(train::createInitPass());
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createCSEPass());
  REQUIRE(succeeded(passes.run(*module)));
  return module;
}

// Returns samples [first, first + count) of a tensor.
Tensor samplesOf(const Tensor &all, int64_t first, int64_t count) {
  SmallVector<int64_t> shape(all.getShape());
  const int64_t elements = all.getNumElements() / shape[0];
  shape[0] = count;
  Tensor part(all.getType().clone(shape));
  for (int64_t i = 0; i < part.getNumElements(); ++i) {
    part.setFloat(i, all.getFloat(first * elements + i));
  }
  return part;
}

// Runs a step of `parts` micro-batches; returns the loss, @w and @b.
std::vector<double> runStep(ModuleOp module, const std::vector<Tensor> &inputs, int64_t parts) {
  reference::Interpreter interpreter(module);
  interpreter.setSeed(7);
  REQUIRE(succeeded(interpreter.run("init", {})));
  const int64_t samples = inputs[0].getShape()[0] / parts;
  FailureOr<std::vector<reference::RankTensors>> results = failure();
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<reference::RankTensors> given;
    for (const Tensor &input : inputs) {
      given.push_back({samplesOf(input, part * samples, samples)});
    }
    results = interpreter.run("train_step", given);
    REQUIRE(succeeded(results));
  }
  if (parts > 1) {
    results = interpreter.run("update", {});
    REQUIRE(succeeded(results));
  }
  std::vector<double> numbers = {(*results)[0].front().getFloat(0)};
  for (StringRef name : {"w", "b"}) {
    const Tensor &value = interpreter.getVariable(name)->front();
    for (int64_t i = 0; i < value.getNumElements(); ++i) {
      numbers.push_back(value.getFloat(i));
    }
  }
  return numbers;
}

std::vector<Tensor> inputsOf(int64_t samples) {
  std::mt19937_64 generator(testSeed());
  Type element = Float64Type::get(&context());
  std::vector<Tensor> inputs = {reference::randomTensor(RankedTensorType::get({samples, kSteps, 4}, element), generator, 1),
                                Tensor(RankedTensorType::get({samples}, element))};
  for (int64_t i = 0; i < samples; ++i) {
    inputs[1].setFloat(i, i % 4 == 3 ? 0 : 1);
  }
  return inputs;
}

double differenceOf(const std::vector<double> &a, const std::vector<double> &b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(std::isfinite(a[i]));
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

} // namespace

TEST_CASE("nn.repeat: a step in micro-batches is the step on the whole batch", "[reference][repeat]") {
  const std::vector<Tensor> inputs = inputsOf(kSamples * kParts);
  for (const auto &[name, body] : std::map<std::string, std::string>{
           {"states", kStates}, {"sums", kSums}, {"quotients", kQuotients}, {"drawn", kDrawn}, {"conditions", kConditions}}) {
    INFO(name);
    OwningOpRef<ModuleOp> whole = stepOf(model(body, kSamples * kParts), 1, 0, /*unrolls=*/true);
    OwningOpRef<ModuleOp> same = stepOf(model(body, kSamples * kParts), 1, 0, /*unrolls=*/false);
    OwningOpRef<ModuleOp> parts = stepOf(model(body, kSamples, kParts), kParts, kSamples, /*unrolls=*/false);
    int64_t repeats = 0;
    parts->walk([&](nn::RepeatOp) { ++repeats; });
    CHECK(repeats >= 3); // forward, backward, and of the evaluation
    const std::vector<double> expected = runStep(*whole, inputs, 1);
    CHECK(differenceOf(runStep(*same, inputs, 1), expected) < 1e-12);
    CHECK(differenceOf(runStep(*parts, inputs, kParts), expected) < 1e-12);
  }
}

// The last batch of an evaluation is filled up with samples that do not count.
TEST_CASE("nn.repeat: an evaluation of several batches is that of all samples", "[reference][repeat]") {
  const int64_t samples = kSamples * kParts - 1;
  const std::vector<Tensor> inputs = inputsOf(kSamples * kParts);
  for (const std::string &body : {kStates, kSums, kQuotients, kConditions}) {
    INFO(body);
    OwningOpRef<ModuleOp> module = stepOf(model(body, kSamples, 2), 1, 0, /*unrolls=*/false);
    OwningOpRef<ModuleOp> whole = stepOf(model(body, samples, 2), 1, 0, /*unrolls=*/true);
    auto evaluate = [&](ModuleOp of, int64_t size) {
      reference::Interpreter interpreter(of);
      interpreter.setSeed(7);
      REQUIRE(succeeded(interpreter.run("init", {})));
      double loss = 0, weight = 0;
      for (int64_t first = 0; first < samples; first += size) {
        std::vector<reference::RankTensors> given;
        for (const Tensor &input : inputs) {
          given.push_back({samplesOf(input, first, size)});
        }
        Tensor count(RankedTensorType::get({}, IntegerType::get(&context(), 64)));
        count.setInt(0, std::min(size, samples - first));
        given.push_back({count});
        auto results = interpreter.run("eval_step", given);
        REQUIRE(succeeded(results));
        REQUIRE(results->size() == 2);
        loss += (*results)[0].front().getFloat(0);
        weight += (*results)[1].front().getFloat(0);
      }
      return loss / weight;
    };
    const double expected = evaluate(*whole, samples);
    CHECK(std::abs(evaluate(*module, kSamples) - expected) < 1e-12);
  }
}

// Rules of the user match the ops of bodies, and these belong to the phase of their repeat.
TEST_CASE("nn.repeat: paths and phases of the ops of bodies", "[reference][repeat]") {
  OwningOpRef<ModuleOp> module = parse(R"(nn.variable @w trainable : tensor<4xf64>
func.func @train_step(%x: tensor<3x4xf64>) -> tensor<f64> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4xf64>
  %last = nn.repeat 3 carried(%h = %w) sliced(%row = %x) : (tensor<4xf64>, tensor<3x4xf64>) -> tensor<4xf64> {
    %next = nn.mul %h, %row : tensor<4xf64> loc("net/cell/decay")
    nn.yield %next : tensor<4xf64>
  } loc("net/cell")
  %loss = nn.reduce sum %last dims = [0] : tensor<4xf64> -> tensor<f64> loc("loss")
  return %loss : tensor<f64>
})");
  PassManager passes(module->getContext());
  passes.addPass(train::createAutodiffPass());
  REQUIRE(succeeded(passes.run(*module)));
  auto step = nn::findProgram(*module, nn::ProgramRole::TrainStep);
  const SmallVector<StringRef> paths = nn::pathsOf(step.front());
  CHECK(llvm::is_contained(paths, "net/cell"));
  CHECK(llvm::is_contained(paths, "net/cell/decay"));
  const nn::Phases phases(step.front());
  std::map<nn::Phase, int64_t> repeats;
  step.walk([&](nn::RepeatOp op) {
    ++repeats[phases.of(op)];
    op.getBody().walk([&](Operation *inner) { CHECK(phases.of(inner) == phases.of(op)); });
  });
  CHECK(repeats[nn::Phase::Forward] == 1);
  CHECK(repeats[nn::Phase::Backward] == 1);
}

} // namespace ashlar::test::repeat_training_test
