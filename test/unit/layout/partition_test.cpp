// SPDX-License-Identifier: Apache-2.0
//
// The program before partitioning on one rank against the program after it on n ranks, both run by the reference interpreter.

#include "compiler/reference/equivalence.h"
#include "passes/layout/inference/propagate_layouts.h"
#include "passes/layout/passes.h"
#include "passes/layout/redistribute/estimate.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <map>

namespace ashlar::test::partition_test {

using namespace mlir;

namespace {

using Axes = std::vector<std::pair<StringRef, int64_t>>;

// Partial sums are added in another order than whole ones: at most some hundred f64 additions of numbers of the order of 1.
constexpr double kTolerance = 1e-11;

// Counts the ops of each name, over all modules of a test.
using Census = std::map<std::string, int64_t>;

// Returns the largest difference between @function of the module on one rank and its partitioned form on all ranks of the mesh.
double compare(ModuleOp module, std::string function, bool splitVariables = false, Census *census = nullptr) {
  OwningOpRef<ModuleOp> after = module.clone();
  REQUIRE(succeeded(partitionModule(*after, splitVariables)));
  after->walk([&](Operation *op) {
    if (census) {
      ++(*census)[op->getName().getStringRef().str()];
    }
  });
  reference::EquivalenceOptions options;
  options.functions = {function};
  options.intLimit = 4;
  options.ranksAfter = dist::findMesh(module).getMesh().numDevices();
  FailureOr<double> difference = reference::compareModules(module, *after, options);
  REQUIRE(succeeded(difference));
  return *difference;
}

// A two-layer perceptron, its loss, gradients and update, written out by hand.
constexpr const char *kTrainStep = R"(
  nn.variable @w1 trainable : tensor<16x8xf64>
  nn.variable @b1 trainable : tensor<16xf64>
  nn.variable @w2 trainable : tensor<4x16xf64>
  func.func @train_step(%x: tensor<24x8xf64>, %labels: tensor<24xi32>) -> tensor<f64> attributes {nn.program = #nn.program<train_step>} {
    %w1 = nn.read @w1 : tensor<16x8xf64>
    %b1 = nn.read @b1 : tensor<16xf64>
    %w2 = nn.read @w2 : tensor<4x16xf64>
    %h0 = nn.matmul %x, %w1 transpose_b : tensor<24x8xf64>, tensor<16x8xf64> -> tensor<24x16xf64>
    %bb = nn.broadcast %b1 dims = [1] : tensor<16xf64> -> tensor<24x16xf64>
    %h1 = nn.add %h0, %bb : tensor<24x16xf64>
    %h = nn.tanh %h1 : tensor<24x16xf64>
    %logits = nn.matmul %h, %w2 transpose_b : tensor<24x16xf64>, tensor<4x16xf64> -> tensor<24x4xf64>
    %l = nn.softmax_cross_entropy %logits, %labels : tensor<24x4xf64>, tensor<24xi32> -> tensor<24xf64>
    %loss = nn.reduce sum %l dims = [0] : tensor<24xf64> -> tensor<f64>
    %p = nn.softmax %logits : tensor<24x4xf64>
    %i = nn.index [0, 1] : tensor<24x4xi64>
    %lb = nn.cast %labels : tensor<24xi32> -> tensor<24xi64>
    %lbb = nn.broadcast %lb dims = [0] : tensor<24xi64> -> tensor<24x4xi64>
    %eq = nn.compare eq %i, %lbb : tensor<24x4xi64> -> tensor<24x4xi1>
    %one = nn.cast %eq : tensor<24x4xi1> -> tensor<24x4xf64>
    %d = nn.sub %p, %one : tensor<24x4xf64>
    %dw2 = nn.matmul %d, %h transpose_a : tensor<24x4xf64>, tensor<24x16xf64> -> tensor<4x16xf64>
    %dh = nn.matmul %d, %w2 : tensor<24x4xf64>, tensor<4x16xf64> -> tensor<24x16xf64>
    %hh = nn.mul %h, %h : tensor<24x16xf64>
    %ones = nn.constant dense<1.0> : tensor<24x16xf64>
    %s = nn.sub %ones, %hh : tensor<24x16xf64>
    %dh1 = nn.mul %dh, %s : tensor<24x16xf64>
    %dw1 = nn.matmul %dh1, %x transpose_a : tensor<24x16xf64>, tensor<24x8xf64> -> tensor<16x8xf64>
    %db1 = nn.reduce sum %dh1 dims = [0] : tensor<24x16xf64> -> tensor<16xf64>
    %n1 = nn.sub %w1, %dw1 : tensor<16x8xf64>
    nn.write @w1, %n1 : tensor<16x8xf64>
    %n2 = nn.sub %w2, %dw2 : tensor<4x16xf64>
    nn.write @w2, %n2 : tensor<4x16xf64>
    %n3 = nn.sub %b1, %db1 : tensor<16xf64>
    nn.write @b1, %n3 : tensor<16xf64>
    return %loss : tensor<f64>
  }
)";

OwningOpRef<ModuleOp> trainStep(const Axes &axes) {
  OwningOpRef<ModuleOp> module = parse(kTrainStep);
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  dist::MeshOp::create(builder, module->getLoc(), "mesh", meshOf(context(), axes));
  return module;
}

template <typename OpTy> int64_t count(ModuleOp module) {
  int64_t number = 0;
  module.walk([&](OpTy) { ++number; });
  return number;
}

} // namespace

TEST_CASE("partition: a training step split over the batch equals one rank", "[partition][data_parallel]") {
  for (const Axes &axes : std::vector<Axes>{{{"dp", 1}}, {{"dp", 2}}, {{"dp", 3}}, {{"dp", 4}}, {{"dp", 8}}, {{"dp", 2}, {"tp", 2}}}) {
    OwningOpRef<ModuleOp> module = trainStep(axes);
    PassManager passes(&context());
    layout::SeedLayoutsPassOptions options;
    options.batchAxes = {"dp"};
    passes.addPass(layout::createSeedLayoutsPass(options));
    REQUIRE(succeeded(passes.run(*module)));
    CHECK(compare(*module, "train_step") < kTolerance);

    // Three gradients and the loss, each summed once; nothing else moves, and nothing at all over an axis of size 1.
    int64_t expected = axes.front().second == 1 ? 0 : 4;
    REQUIRE(succeeded(partitionModule(*module)));
    CHECK(count<dist::AllReduceOp>(*module) == expected);
    CHECK(count<dist::CollectiveOpInterface>(*module) == expected);
  }
}

TEST_CASE("partition: a training step with random layouts equals one rank", "[partition][random]") {
  for (uint64_t seed = testSeed(); seed < testSeed() + 60; ++seed) {
    CAPTURE(seed);
    const Axes meshes[] = {{{"x", 2}, {"y", 2}}, {{"x", 4}}, {{"x", 3}, {"y", 2}}, {{"x", 2}, {"y", 2}, {"z", 2}}};
    OwningOpRef<ModuleOp> module = trainStep(meshes[seed % 4]);
    dist::MeshAttr mesh = dist::findMesh(*module).getMesh();
    Dice dice(seed);
    auto function = module->lookupSymbol<func::FuncOp>("train_step");
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      dist::Layout layout = randomLayout(dice, mesh, cast<RankedTensorType>(type).getShape());
      function.setArgAttr(i, dist::kLayoutAttr, dist::LayoutAttr::get(&context(), layout));
    }
    module->walk([&](nn::VariableOp variable) {
      dist::Layout layout = randomLayout(dice, mesh, variable.getTensorType().getShape());
      if (dice.roll(2) == 0) {
        variable->setAttr(dist::kLayoutAttr, dist::LayoutAttr::get(&context(), layout));
      }
    });
    CHECK(compare(*module, "train_step", /*splitVariables=*/seed % 2 == 0) < kTolerance);
  }
}

TEST_CASE("partition: random programs with random layouts equal one rank", "[partition][random]") {
  const Axes meshes[] = {{{"x", 2}}, {{"x", 2}, {"y", 2}}, {{"x", 3}, {"y", 2}}, {{"x", 4}, {"y", 3}}, {{"x", 2}, {"y", 2}, {"z", 2}}};
  Census census;
  for (uint64_t seed = testSeed(); seed < testSeed() + 300; ++seed) {
    CAPTURE(seed);
    dist::MeshAttr mesh = meshOf(context(), meshes[seed % std::size(meshes)]);
    OwningOpRef<ModuleOp> module = randomProgram(context(), seed, mesh, /*numOps=*/12);
    CHECK(compare(*module, "f", /*splitVariables=*/seed % 2 == 0, &census) < kTolerance);
  }
  // The programs were worth running: all that partitioning can make was made.
  for (const char *name :
       {"dist.all_reduce", "dist.all_gather", "dist.reduce_scatter", "dist.all_to_all", "dist.slice", "dist.axis_index"}) {
    CAPTURE(name);
    CHECK(census[name] > 0);
  }
}

TEST_CASE("estimate: layouts that are inferred cost what they do when they are written", "[estimate]") {
  auto numbersOf = [](const layout::Estimate &estimate) {
    std::vector<int64_t> numbers = {estimate.parameterBytes, estimate.stateBytes, estimate.inputOutputBytes};
    for (const layout::ProgramEstimate &program : estimate.programs) {
      llvm::append_range(numbers,
                         std::vector<int64_t>{program.computePs, program.sendPs, program.exposedPs, program.bytesSent, program.peakBytes});
    }
    return numbers;
  };
  int64_t sending = 0, expanded = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Axes axes = seed % 2 == 0 ? Axes{{"x", 2}, {"y", 3}} : Axes{{"x", 4}};
    OwningOpRef<ModuleOp> module = randomProgram(context(), seed, meshOf(context(), axes), /*numOps=*/12);
    OwningOpRef<ModuleOp> written = module->clone(), inferred = module->clone();
    REQUIRE(succeeded(layout::propagateLayouts(*written, /*splitVariables=*/true)));
    analysis::Planner planner(dist::findMesh(*module));
    FailureOr<layout::Inferred> layouts = layout::inferLayouts(*inferred, /*splitVariables=*/true);
    REQUIRE(succeeded(layouts));
    FailureOr<layout::Estimate> estimated = layout::estimateLayouts(*written),
                                same = layout::estimateInferred(*inferred, *layouts, planner);
    REQUIRE(succeeded(estimated));
    REQUIRE(succeeded(same));
    CHECK(numbersOf(*estimated) == numbersOf(*same));
    sending += estimated->programs.front().bytesSent > 0;
    expanded += count<nn::SoftmaxOp>(*written) < count<nn::SoftmaxOp>(*module);
  }
  CHECK(sending > 100);
  CHECK(expanded > 5);
}

} // namespace ashlar::test::partition_test
