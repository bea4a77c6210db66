// SPDX-License-Identifier: Apache-2.0
//
// Programs with repeats before and after -ashlar-flatten-repeats and -ashlar-nest-repeats, and on one rank against their partitioned form
// on n ranks, run by the reference interpreter; and the bytes that an estimate counts against those that the partitioned program sends.

#include "compiler/reference/equivalence.h"
#include "dialects/nn/repeat/flat_repeats.h"
#include "dialects/nn/repeat/repeats.h"
#include "passes/layout/passes.h"
#include "passes/layout/redistribute/estimate.h"
#include "passes/partition/passes.h"
#include "passes/train/passes.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"
#include "test/unit/reference/random_repeats.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

using namespace mlir;

namespace ashlar::test {

namespace {

using Axes = std::vector<std::pair<StringRef, int64_t>>;

// The same sums of some hundred numbers of the order of 1 in another order.
constexpr double kTolerance = 1e-10;

void apply(ModuleOp module, llvm::function_ref<void(PassManager &)> add) {
  PassManager passes(module.getContext());
  add(passes);
  REQUIRE(succeeded(passes.run(module)));
}

// Adds gradients and an update. With an odd seed the gradients of captured values are sums that loops carry.
void addUpdate(ModuleOp module, uint64_t seed) {
  ScopedDiagnosticHandler untrained(&context(), [](Diagnostic &) { return success(); });
  apply(module, [&](PassManager &passes) {
    passes.addPass(train::createAutodiffPass());
    if (seed % 2 == 0) {
      passes.addNestedPass<func::FuncOp>(train::createSumBehindRepeatsPass());
    }
    passes.addPass(train::createOptimizerPass());
    passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
    passes.addNestedPass<func::FuncOp>(createCSEPass());
  });
}

// Gives some arguments, variables and values, those of bodies among them, random layouts.
void addLayouts(ModuleOp module, uint64_t seed, dist::MeshAttr mesh) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  dist::MeshOp::create(builder, module.getLoc(), "mesh", mesh);
  Dice dice(seed);
  auto layoutFor = [&](Type type) {
    return dist::LayoutAttr::get(module.getContext(), randomLayout(dice, mesh, cast<RankedTensorType>(type).getShape()));
  };
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (dice.roll(2)) {
      variable->setAttr(dist::kLayoutAttr, layoutFor(variable.getTensorType()));
    }
  }
  auto step = module.lookupSymbol<func::FuncOp>("train_step");
  for (BlockArgument argument : step.getArguments()) {
    step.setArgAttr(argument.getArgNumber(), dist::kLayoutAttr, layoutFor(argument.getType()));
  }
  step.walk([&](Operation *op) {
    if (op->getNumResults() == 1 && isa<ShardingRuleOpInterface>(op) && dice.roll(6) == 0) {
      op->setAttr(dist::kLayoutsAttr, builder.getArrayAttr(layoutFor(op->getResultTypes().front())));
    }
  });
}

int64_t countRepeats(ModuleOp module) {
  int64_t repeats = 0;
  module.walk([&](nn::RepeatOp) { ++repeats; });
  return repeats;
}

double compare(ModuleOp before, ModuleOp after) {
  reference::EquivalenceOptions options;
  options.functions = {"train_step"};
  options.ranksAfter = dist::findMesh(after).getMesh().numDevices();
  FailureOr<double> difference = reference::compareModules(before, after, options);
  REQUIRE(succeeded(difference));
  return *difference;
}

// A recurrent net of 5 steps; its loss is of all states and of the last one.
constexpr const char *kRecurrent = R"(
  nn.variable @wx trainable : tensor<6x8xf64>
  nn.variable @wh trainable : tensor<8x8xf64>
  nn.variable @b trainable : tensor<8xf64>
  nn.variable @decay trainable : tensor<f64>
  func.func @train_step(%samples: tensor<4x5x6xf64>, %target: tensor<4x8xf64>) -> tensor<f64> attributes {nn.program = #nn.program<train_step>} {
    %wx = nn.read @wx : tensor<6x8xf64>
    %wh = nn.read @wh : tensor<8x8xf64>
    %b = nn.read @b : tensor<8xf64>
    %d = nn.read @decay : tensor<f64>
    %zero = nn.constant dense<0.0> : tensor<4x8xf64>
    %xs = nn.transpose %samples [1, 0, 2] : tensor<4x5x6xf64> -> tensor<5x4x6xf64>
    %last, %all = nn.repeat 5 carried(%h = %zero) sliced(%x = %xs) captured(%w = %wh, %v = %wx, %c = %b, %k = %d)
        : (tensor<4x8xf64>, tensor<5x4x6xf64>, tensor<8x8xf64>, tensor<6x8xf64>, tensor<8xf64>, tensor<f64>) -> (tensor<4x8xf64>, tensor<5x4x8xf64>) {
      %ks = nn.broadcast %k dims = [] : tensor<f64> -> tensor<4x8xf64>
      %decayed = nn.mul %h, %ks : tensor<4x8xf64>
      %p = nn.matmul %decayed, %w : tensor<4x8xf64>, tensor<8x8xf64> -> tensor<4x8xf64>
      %q = nn.matmul %x, %v : tensor<4x6xf64>, tensor<6x8xf64> -> tensor<4x8xf64>
      %s = nn.add %p, %q : tensor<4x8xf64>
      %cs = nn.broadcast %c dims = [1] : tensor<8xf64> -> tensor<4x8xf64>
      %a = nn.add %s, %cs : tensor<4x8xf64>
      %next = nn.tanh %a : tensor<4x8xf64>
      nn.yield %next, %next : tensor<4x8xf64>, tensor<4x8xf64>
    }
    %sum = nn.reduce sum %all dims = [0] : tensor<5x4x8xf64> -> tensor<4x8xf64>
    %y = nn.add %sum, %last : tensor<4x8xf64>
    %e = nn.sub %y, %target : tensor<4x8xf64>
    %sq = nn.mul %e, %e : tensor<4x8xf64>
    %loss = nn.reduce sum %sq dims = [0, 1] : tensor<4x8xf64> -> tensor<f64>
    return %loss : tensor<f64>
  }
)";

// Returns the bytes that a device sends in a run of the step.
int64_t bytesSent(ModuleOp module) {
  int64_t bytes = 0;
  module.lookupSymbol<func::FuncOp>("train_step").walk([&](dist::CollectiveOpInterface op) {
    bytes += dist::collectiveBytes(op) * nn::countRuns(op);
  });
  return bytes;
}

int64_t estimatedBytes(ModuleOp module) {
  FailureOr<layout::Estimate> estimate = layout::estimateLayouts(module);
  REQUIRE(succeeded(estimate));
  return estimate->programs.front().bytesSent;
}

} // namespace

TEST_CASE("repeats: flat and nested again they compute the same", "[repeats]") {
  const uint64_t base = testSeed() * 1000;
  for (uint64_t seed = base; seed < base + 60; ++seed) {
    const std::string text = randomRepeats(seed);
    INFO("seed " << seed << "\n" << text);
    OwningOpRef<ModuleOp> module = parse(text);
    addUpdate(*module, seed);
    OwningOpRef<ModuleOp> flat = module->clone();
    apply(*flat, [](PassManager &passes) { passes.addNestedPass<func::FuncOp>(layout::createFlattenRepeatsPass()); });
    Block &block = flat->lookupSymbol<func::FuncOp>("train_step").front();
    CHECK(block.getOps<nn::RepeatOp>().empty());
    OwningOpRef<ModuleOp> nested = flat->clone();
    apply(*nested, [](PassManager &passes) { passes.addNestedPass<func::FuncOp>(partition::createNestRepeatsPass()); });
    CHECK_FALSE(nn::hasFlatRepeats(nested->lookupSymbol<func::FuncOp>("train_step").front()));
    reference::EquivalenceOptions options;
    options.functions = {"train_step"};
    for (ModuleOp after : {*flat, *nested}) {
      FailureOr<double> difference = reference::compareModules(*module, after, options);
      REQUIRE(succeeded(difference));
      CHECK(*difference == 0);
    }
  }
}

TEST_CASE("repeats: random training steps on random layouts", "[repeats]") {
  const uint64_t base = testSeed() * 1000;
  int64_t inBodies = 0, repeats = 0;
  for (const Axes &axes : {Axes{{"a", 2}}, Axes{{"a", 2}, {"b", 3}}}) {
    dist::MeshAttr mesh = meshOf(context(), axes);
    for (uint64_t seed = base; seed < base + 40; ++seed) {
      const std::string text = randomRepeats(seed);
      INFO("seed " << seed << " on " << mesh.numDevices() << " devices\n" << text);
      OwningOpRef<ModuleOp> module = parse(text);
      addUpdate(*module, seed);
      OwningOpRef<ModuleOp> after = module->clone();
      addLayouts(*after, seed, mesh);
      REQUIRE(succeeded(partitionModule(*after, /*splitVariables=*/seed / 2 % 2)));
      after->walk([&](dist::CollectiveOpInterface op) { inBodies += op->getParentOfType<nn::RepeatOp>() != nullptr; });
      repeats += countRepeats(*after);
      CHECK(compare(*module, *after) <= kTolerance);
      apply(*after, [](PassManager &passes) { // of products in bodies, too
        partition::ComputeInBlocksPassOptions blocks;
        blocks.leastBytes = blocks.leastRows = 1;
        blocks.timeShare = 1'000'000;
        passes.addNestedPass<func::FuncOp>(partition::createComputeInBlocksPass(blocks));
      });
      CHECK(compare(*module, *after) <= kTolerance);
    }
  }
  CHECK(repeats > 100);
  CHECK(inBodies > 100);
}

TEST_CASE("repeats: searched layouts compute the same", "[repeats]") {
  const uint64_t base = testSeed() * 1000;
  for (uint64_t seed = base; seed < base + 8; ++seed) {
    const std::string text = randomRepeats(seed);
    INFO("seed " << seed << "\n" << text);
    OwningOpRef<ModuleOp> module = parse(text);
    addUpdate(*module, seed);
    OwningOpRef<ModuleOp> after = module->clone();
    OpBuilder builder = OpBuilder::atBlockBegin(after->getBody());
    dist::MeshOp::create(builder, after->getLoc(), "mesh", meshOf(context(), {{"a", 2}}));
    pipelines::Variant variant = variantOf(*after, /*splitVariables=*/true);
    variant.search.emplace();
    PassManager passes(&context());
    pipelines::addLayoutPasses(passes, variant, job::Job());
    pipelines::addDistPasses(passes, variant);
    REQUIRE(succeeded(passes.run(*after)));
    CHECK(compare(*module, *after) <= kTolerance);
  }
}

// One sum of each gradient, and the loss: nothing is sent in the loops, whether they carry the gradients of weights or not.
TEST_CASE("repeats: data parallelism sends nothing in the loops", "[repeats]") {
  for (uint64_t seed : {0, 1}) {
    OwningOpRef<ModuleOp> module = parse(kRecurrent);
    addUpdate(*module, seed);
    OwningOpRef<ModuleOp> after = module->clone();
    OpBuilder builder = OpBuilder::atBlockBegin(after->getBody());
    dist::MeshOp::create(builder, after->getLoc(), "mesh", meshOf(context(), {{"dp", 2}}));
    REQUIRE(succeeded(partitionModule(*after, /*splitVariables=*/false, {"dp"})));
    int64_t collectives = 0;
    after->walk([&](dist::CollectiveOpInterface op) {
      CHECK(op->getParentOfType<nn::RepeatOp>() == nullptr);
      collectives += op.getCollectiveKind() == CollectiveKind::AllReduce;
    });
    CHECK(collectives == 5);
    CHECK(countRepeats(*after) == 2);
    CHECK(compare(*module, *after) <= kTolerance);
  }
}

TEST_CASE("repeats: an estimate counts the bytes that all iterations send", "[repeats]") {
  const uint64_t base = testSeed() * 1000;
  int64_t sent = 0;
  dist::MeshAttr mesh = meshOf(context(), {{"a", 2}, {"b", 3}});
  for (uint64_t seed = base; seed < base + 80; ++seed) {
    const std::string text = randomRepeats(seed);
    if (text.find("nn.repeat 0 ") != std::string::npos) {
      continue; // an estimate counts at least one iteration
    }
    INFO("seed " << seed << "\n" << text);
    OwningOpRef<ModuleOp> module = parse(text);
    addUpdate(*module, seed);
    addLayouts(*module, seed, mesh);
    PassManager passes(&context());
    pipelines::addLayoutPasses(passes, variantOf(*module), job::Job());
    REQUIRE(succeeded(passes.run(*module)));
    const int64_t estimated = estimatedBytes(*module);
    apply(*module, [](PassManager &passes) {
      passes.addPass(layout::createInsertRedistributionsPass());
      passes.addPass(layout::createVerifyLayoutsPass());
      passes.addPass(partition::createPartitionPass());
      passes.addNestedPass<func::FuncOp>(partition::createNestRepeatsPass());
      passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
      passes.addPass(partition::createSimplifyCollectivesPass());
    });
    CHECK(estimated == bytesSent(*module));
    sent += estimated > 0;
  }
  CHECK(sent > 20);
}

} // namespace ashlar::test
