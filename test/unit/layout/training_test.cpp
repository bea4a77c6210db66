// SPDX-License-Identifier: Apache-2.0
//
// Whole training programs, as passes/train makes them, on one rank and on many: initial values, training steps with dropout, evaluation.

#include "compiler/reference/equivalence.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "passes/train/passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

namespace ashlar::test::training_test {

using namespace mlir;

namespace {

using Axes = std::vector<std::pair<StringRef, int64_t>>;

// The same sums in another order, three f64 steps of them.
constexpr double kTolerance = 1e-10;

// A model with a parameter used twice, a bias and dropout.
constexpr const char *kModel = R"(
  nn.variable @w1 trainable : tensor<8x4xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
  nn.variable @b1 trainable : tensor<8xf64> = #nn.fill<0.1 : f64>
  nn.variable @shared trainable : tensor<8x8xf64> = #nn.normal<0.0 : f64, 0.5 : f64>
  nn.variable @w2 trainable : tensor<4x8xf64> = #nn.uniform<-1.0 : f64, 1.0 : f64>
  nn.variable @ashlar.seed internal : tensor<i64>
  nn.variable @ashlar.step internal : tensor<i64> = dense<0> : tensor<i64>
  func.func @forward(%x: tensor<24x4xf64> {nn.name = "input"}) -> (tensor<24x4xf64> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
    %w1 = nn.read @w1 : tensor<8x4xf64>
    %b1 = nn.read @b1 : tensor<8xf64>
    %s = nn.read @shared : tensor<8x8xf64>
    %w2 = nn.read @w2 : tensor<4x8xf64>
    %0 = nn.matmul %x, %w1 transpose_b : tensor<24x4xf64>, tensor<8x4xf64> -> tensor<24x8xf64>
    %1 = nn.broadcast %b1 dims = [1] : tensor<8xf64> -> tensor<24x8xf64>
    %2 = nn.add %0, %1 : tensor<24x8xf64>
    %3 = nn.tanh %2 : tensor<24x8xf64>
    %4 = nn.matmul %3, %s : tensor<24x8xf64>, tensor<8x8xf64> -> tensor<24x8xf64>
    %5 = nn.tanh %4 : tensor<24x8xf64>
    %6 = nn.matmul %5, %s transpose_b : tensor<24x8xf64>, tensor<8x8xf64> -> tensor<24x8xf64>
    %index = nn.index [8, 1] : tensor<24x8xi64>
    %seed = nn.read @ashlar.seed : tensor<i64>
    %step = nn.read @ashlar.step : tensor<i64>
    %stream = nn.constant dense<3> : tensor<i32>
    %u = nn.random uniform %index, %seed, %step, %stream : (tensor<24x8xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<24x8xf64>
    %ratio = nn.constant dense<0.25> : tensor<24x8xf64>
    %none = nn.constant dense<0.0> : tensor<24x8xf64>
    %keep = nn.compare ge %u, %ratio : tensor<24x8xf64> -> tensor<24x8xi1>
    %7 = nn.select %keep, %6, %none : tensor<24x8xi1>, tensor<24x8xf64>
    %logits = nn.matmul %7, %w2 transpose_b : tensor<24x8xf64>, tensor<4x8xf64> -> tensor<24x4xf64>
    return %logits : tensor<24x4xf64>
  }
)";

// Returns the programs @init, @train_step and @eval_step of the model.
OwningOpRef<ModuleOp> trainingPrograms() {
  OwningOpRef<ModuleOp> module = parse(kModel);
  REQUIRE(succeeded(addTraining(*module)));
  return module;
}

// Returns them for the model in f32, computed in bf16.
OwningOpRef<ModuleOp> mixedPrograms() {
  std::string text = kModel;
  for (size_t at = 0; (at = text.find("xf64", at)) != std::string::npos;) {
    text.replace(at, 4, "xf32");
  }
  OwningOpRef<ModuleOp> module = parse(text);
  PassManager passes(&context());
  passes.addPass(train::createMixedPrecisionPass());
  REQUIRE(succeeded(passes.run(*module)));
  REQUIRE(succeeded(addTraining(*module)));
  return module;
}

// Trains the module as it is on one rank and partitioned on all ranks of the mesh; returns the largest difference of any result or
// variable.
double compareTraining(ModuleOp module, const Axes &axes, bool splitVariables) {
  OwningOpRef<ModuleOp> after = module.clone();
  OpBuilder builder = OpBuilder::atBlockBegin(after->getBody());
  dist::MeshAttr mesh = meshOf(context(), axes);
  dist::MeshOp::create(builder, after->getLoc(), "mesh", mesh);
  REQUIRE(succeeded(partitionModule(*after, splitVariables, {"dp"})));
  reference::EquivalenceOptions options;
  options.functions = {"init", "train_step", "train_step", "eval_step"};
  options.ranksAfter = mesh.numDevices();
  options.intLimit = 4;
  FailureOr<double> difference = reference::compareModules(module, *after, options);
  REQUIRE(succeeded(difference));
  return *difference;
}

} // namespace

TEST_CASE("training: data parallel programs equal one rank, dropout and initial values included", "[training]") {
  OwningOpRef<ModuleOp> module = trainingPrograms();
  for (const Axes &axes :
       std::vector<Axes>{{{"dp", 1}}, {{"dp", 2}}, {{"dp", 3}}, {{"dp", 8}}, {{"dp", 2}, {"tp", 2}}, {{"tp", 3}, {"dp", 2}}}) {
    CAPTURE(axes.front().first.str(), axes.front().second);
    CHECK(compareTraining(*module, axes, /*splitVariables=*/false) < kTolerance);
  }
}

TEST_CASE("training: a parameter used twice has its gradient summed once", "[training]") {
  OwningOpRef<ModuleOp> module = trainingPrograms();
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  dist::MeshOp::create(builder, module->getLoc(), "mesh", meshOf(context(), {{"dp", 4}}));
  REQUIRE(succeeded(partitionModule(*module, /*splitVariables=*/false, {"dp"})));
  std::vector<std::string> causes;
  module->lookupSymbol<func::FuncOp>("train_step").walk([&](dist::CollectiveOpInterface op) {
    for (auto end : op.getCauseAttr().getAsRange<dist::EndAttr>()) {
      causes.push_back((dist::stringifyEndKind(end.getKind()) + " " + end.getName().getValue()).str());
    }
  });
  std::sort(causes.begin(), causes.end());
  CHECK(causes == std::vector<std::string>{"gradient b1", "gradient shared", "gradient w1", "gradient w2", "op loss"});
}

TEST_CASE("training: programs with split parameters equal one rank", "[training]") {
  // The init programs then draw only their own piece of each parameter; momentum follows its parameter.
  OwningOpRef<ModuleOp> module = trainingPrograms();
  for (const Axes &axes : std::vector<Axes>{{{"dp", 2}, {"tp", 2}}, {{"tp", 4}, {"dp", 2}}}) {
    for (uint64_t seed = testSeed(); seed < testSeed() + 8; ++seed) {
      CAPTURE(seed);
      OwningOpRef<ModuleOp> split = module->clone();
      dist::MeshAttr mesh = meshOf(context(), axes);
      Dice dice(seed);
      split->walk([&](nn::VariableOp variable) {
        if (variable.getTrainable()) {
          dist::Layout layout = randomLayout(dice, mesh, variable.getTensorType().getShape());
          variable->setAttr(dist::kLayoutAttr, dist::LayoutAttr::get(&context(), layout));
        }
      });
      CHECK(compareTraining(*split, axes, /*splitVariables=*/true) < kTolerance);
    }
  }
}

TEST_CASE("training: in mixed precision ranks add gradients in f32, and move parameters in bf16", "[training][narrow]") {
  OwningOpRef<ModuleOp> module = mixedPrograms();
  // What is split along the batch rounds as on one rank, so only sums in f32 differ: by less than a rounding in bf16, of which the second
  // step and the evaluation may see a few. A split of a contracted dim makes one rounding more of its product.
  constexpr double kRounding = 0x1p-8;
  for (const Axes &axes : std::vector<Axes>{{{"dp", 2}}, {{"dp", 3}}, {{"dp", 8}}}) {
    CAPTURE(axes.front().second);
    CHECK(compareTraining(*module, axes, /*splitVariables=*/false) < kRounding);
  }
  const Axes axes = {{"dp", 2}, {"tp", 2}};
  dist::MeshAttr mesh = meshOf(context(), axes);
  for (uint64_t seed = testSeed(); seed < testSeed() + 8; ++seed) {
    CAPTURE(seed);
    OwningOpRef<ModuleOp> split = module->clone();
    Dice dice(seed);
    split->walk([&](nn::VariableOp variable) {
      if (variable.getTrainable()) {
        dist::Layout layout = randomLayout(dice, mesh, variable.getTensorType().getShape());
        variable->setAttr(dist::kLayoutAttr, dist::LayoutAttr::get(&context(), layout));
      }
    });
    CHECK(compareTraining(*split, axes, /*splitVariables=*/true) < 4 * kRounding);
  }
}

TEST_CASE("training: gradients are all-reduced in f32, parameters gathered in bf16", "[training][narrow]") {
  auto collectives = [](ModuleOp module, bool splitVariables) {
    REQUIRE(succeeded(partitionModule(module, splitVariables, {"dp"})));
    std::vector<std::string> found;
    module.lookupSymbol<func::FuncOp>("train_step").walk([&](dist::CollectiveOpInterface op) {
      std::string text;
      llvm::raw_string_ostream(text) << op->getName().stripDialect() << ' ' << op->getResult(0).getType();
      found.push_back(text);
    });
    std::sort(found.begin(), found.end());
    return found;
  };
  auto addMesh = [](ModuleOp module) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    dist::MeshOp::create(builder, module.getLoc(), "mesh", meshOf(context(), {{"dp", 4}}));
  };
  OwningOpRef<ModuleOp> module = mixedPrograms();
  addMesh(*module);
  CHECK(collectives(*module, /*splitVariables=*/false) ==
        std::vector<std::string>{"all_reduce tensor<4x8xf32>", "all_reduce tensor<8x4xf32>", "all_reduce tensor<8x8xf32>",
                                 "all_reduce tensor<8xf32>", "all_reduce tensor<f32>"});
  OwningOpRef<ModuleOp> split = mixedPrograms();
  addMesh(*split);
  for (const char *name : {"shared", "shared.momentum"}) {
    auto layout = dist::LayoutAttr::get(&context(), dist::Layout{{{StringAttr::get(&context(), "dp")}, {}}});
    split->lookupSymbol<nn::VariableOp>(name)->setAttr(dist::kLayoutAttr, layout);
  }
  std::vector<std::string> found = collectives(*split, /*splitVariables=*/false);
  CHECK(llvm::is_contained(found, "all_gather tensor<8x8xbf16>"));
  CHECK(!llvm::is_contained(found, "all_gather tensor<8x8xf32>"));
}

} // namespace ashlar::test::training_test
