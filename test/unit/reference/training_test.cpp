// SPDX-License-Identifier: Apache-2.0
//
// The whole training step: gradients of a model through loss and autodiff against central differences, and training that learns.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "passes/train/passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

namespace ashlar::test::training_test {

using namespace mlir;
using ashlar::reference::Interpreter;
using ashlar::reference::RankTensors;
using ashlar::reference::Tensor;

namespace {

// A model in f64 with a shared weight, a residual connection, dropout and layers of several kinds; classes are 3.
constexpr const char *kModel = R"(
nn.variable @w1 trainable : tensor<5x4xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
nn.variable @b1 trainable : tensor<5xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
nn.variable @shared trainable : tensor<5x5xf64> = #nn.normal<0.0 : f64, 0.5 : f64>
nn.variable @w2 trainable : tensor<5x3xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
nn.variable @fixed : tensor<6x3xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
nn.variable @ashlar.seed internal : tensor<i64>
nn.variable @ashlar.step internal : tensor<i64> = dense<0> : tensor<i64>
func.func @forward(%x: tensor<6x4xf64> {nn.name = "input"}) -> (tensor<6x3xf64> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
  %w1 = nn.read @w1 : tensor<5x4xf64>
  %b1 = nn.read @b1 : tensor<5xf64>
  %0 = nn.matmul %x, %w1 transpose_b : tensor<6x4xf64>, tensor<5x4xf64> -> tensor<6x5xf64>
  %1 = nn.broadcast %b1 dims = [1] : tensor<5xf64> -> tensor<6x5xf64>
  %2 = nn.add %0, %1 : tensor<6x5xf64>
  %3 = nn.tanh %2 : tensor<6x5xf64>
  %s = nn.read @shared : tensor<5x5xf64>
  %4 = nn.matmul %3, %s : tensor<6x5xf64>, tensor<5x5xf64> -> tensor<6x5xf64>
  %5 = nn.gelu %4 : tensor<6x5xf64>
  %6 = nn.add %5, %3 : tensor<6x5xf64>
  %s2 = nn.read @shared : tensor<5x5xf64>
  %7 = nn.matmul %6, %s2 transpose_b : tensor<6x5xf64>, tensor<5x5xf64> -> tensor<6x5xf64>
  %8 = nn.sigmoid %7 : tensor<6x5xf64>
  %index = nn.index [5, 1] : tensor<6x5xi64>
  %seed = nn.read @ashlar.seed : tensor<i64>
  %step = nn.read @ashlar.step : tensor<i64>
  %stream = nn.constant dense<3> : tensor<i32>
  %u = nn.random uniform %index, %seed, %step, %stream : (tensor<6x5xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<6x5xf64>
  %ratio = nn.constant dense<0.25> : tensor<6x5xf64>
  %scale = nn.constant dense<1.25> : tensor<6x5xf64>
  %none = nn.constant dense<0.0> : tensor<6x5xf64>
  %keep = nn.compare ge %u, %ratio : tensor<6x5xf64> -> tensor<6x5xi1>
  %mask = nn.select %keep, %scale, %none : tensor<6x5xi1>, tensor<6x5xf64>
  %9 = nn.mul %8, %mask {nn.training_only} : tensor<6x5xf64>
  %w2 = nn.read @w2 : tensor<5x3xf64>
  %10 = nn.matmul %9, %w2 : tensor<6x5xf64>, tensor<5x3xf64> -> tensor<6x3xf64>
  %f = nn.read @fixed : tensor<6x3xf64>
  %11 = nn.add %10, %f : tensor<6x3xf64>
  return %11 : tensor<6x3xf64>
}
)";

void applyTo(ModuleOp module, ArrayRef<llvm::function_ref<std::unique_ptr<Pass>()>> makers) {
  PassManager passes(&context());
  for (auto make : makers) {
    passes.addPass(make());
  }
  REQUIRE(succeeded(passes.run(module)));
}

std::unique_ptr<Pass> makeLoss() {
  train::LossPassOptions options;
  options.output = "logits";
  return train::createLossPass(options);
}

std::unique_ptr<Pass> makeAutodiff() {
  return train::createAutodiffPass();
}

// Turns each nn.gradient of @train_step into a further result, in the order of `names`.
void returnGradients(ModuleOp module, std::vector<std::string> &names) {
  auto function = module.lookupSymbol<func::FuncOp>("train_step");
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto gradient : function.getBody().front().getOps<nn::GradientOp>()) {
    names.push_back(gradient.getVariable().str());
    terminator->insertOperands(terminator->getNumOperands(), gradient.getResult());
  }
  function.setType(FunctionType::get(module.getContext(), function.getArgumentTypes(), terminator->getOperandTypes()));
}

std::vector<Tensor> batch(uint64_t seed) {
  std::mt19937_64 generator(seed);
  return {reference::randomTensor(RankedTensorType::get({6, 4}, Float64Type::get(&context())), generator, /*intLimit=*/1),
          reference::randomTensor(RankedTensorType::get({6}, IntegerType::get(&context(), 32)), generator, /*intLimit=*/3)};
}

} // namespace

TEST_CASE("gradients of a whole training step agree with central differences", "[train][gradient]") {
  uint64_t seed = testSeed();
  INFO("seed " << seed);
  OwningOpRef<ModuleOp> module = parse(kModel);
  applyTo(*module, {makeLoss, makeAutodiff, train::createInitPass});
  std::vector<std::string> names;
  returnGradients(*module, names);
  // Completed last to first; the shared weight once, behind its first use.
  CHECK(names == std::vector<std::string>{"w2", "shared", "b1", "w1"});
  Interpreter interpreter(*module);
  interpreter.setSeed(static_cast<int64_t>(seed));
  REQUIRE(succeeded(interpreter.run("init", {})));
  std::vector<Tensor> inputs = batch(seed);
  FailureOr<std::vector<Tensor>> results = reference::runGlobal(interpreter, "train_step", inputs);
  REQUIRE(succeeded(results));
  for (auto [k, name] : llvm::enumerate(names)) {
    const Tensor original = interpreter.getVariable(name)->front();
    for (int64_t i = 0; i < original.getNumElements(); ++i) {
      constexpr double kStep = 1e-5;
      double losses[2];
      for (int side : {0, 1}) {
        Tensor moved = original;
        moved.setFloat(i, original.getFloat(i) + (side ? kStep : -kStep));
        interpreter.setVariable(name, {moved});
        losses[side] = reference::runGlobal(interpreter, "train_step", inputs)->front().getFloat(0);
      }
      INFO("@" << name << " element " << i);
      CHECK((*results)[k + 1].getFloat(i) == Approx((losses[1] - losses[0]) / (2 * kStep)).epsilon(1e-6).margin(1e-8));
    }
    interpreter.setVariable(name, {original});
  }
}

TEST_CASE("training lowers the loss, and canonicalizing changes none of it", "[train]") {
  train::OptimizerPassOptions options;
  options.kind = train::OptimizerKind::Momentum;
  options.learningRate = 0.1;
  auto optimizer = [&] { return train::createOptimizerPass(options); };
  OwningOpRef<ModuleOp> module = parse(kModel);
  applyTo(*module, {makeLoss, makeAutodiff, optimizer, train::createInitPass, train::createVerifyTrainPass});
  Interpreter interpreter(*module);
  interpreter.setSeed(3);
  REQUIRE(succeeded(interpreter.run("init", {})));
  std::vector<Tensor> inputs = batch(/*seed=*/3);
  // Of 6 samples 4 count.
  std::vector<Tensor> some = inputs, all = inputs;
  for (auto [count, list] : {std::pair(4, &some), std::pair(6, &all)}) {
    list->emplace_back(RankedTensorType::get({}, IntegerType::get(&context(), 64)));
    list->back().setInt(0, count);
  }
  double first = reference::runGlobal(interpreter, "eval_step", all)->front().getFloat(0);
  constexpr int kSteps = 600;
  for (int step = 0; step < kSteps; ++step) {
    REQUIRE(succeeded(reference::runGlobal(interpreter, "train_step", inputs)));
  }
  std::vector<Tensor> last = *reference::runGlobal(interpreter, "eval_step", all);
  CHECK(last[0].getFloat(0) < 0.1 * first);
  CHECK(last[2].getInt(0) == 6);
  std::vector<Tensor> part = *reference::runGlobal(interpreter, "eval_step", some);
  CHECK((part[0].getFloat(0) > 0 && part[0].getFloat(0) < last[0].getFloat(0)));
  CHECK(part[2].getInt(0) == 4);
  CHECK(interpreter.getVariable("ashlar.step")->front().getInt(0) == kSteps);

  OwningOpRef<ModuleOp> simplified(cast<ModuleOp>((*module)->clone()));
  applyTo(*simplified, {[] { return createCanonicalizerPass(); }, [] { return createCSEPass(); }, train::createVerifyTrainPass});
  reference::EquivalenceOptions equivalence;
  equivalence.functions = {"init", "train_step", "train_step", "eval_step"};
  equivalence.intLimit = 3;
  FailureOr<double> difference = reference::compareModules(*module, *simplified, equivalence);
  REQUIRE(succeeded(difference));
  CHECK(*difference == 0);
}

} // namespace ashlar::test::training_test
