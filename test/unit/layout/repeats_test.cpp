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

#include <map>

namespace ashlar::test::repeats_test {

using namespace mlir;

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

// Gives some arguments and variables, and one of `every` values, those of bodies among them, random layouts.
void addLayouts(ModuleOp module, uint64_t seed, dist::MeshAttr mesh, int64_t every = 6) {
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
    if (op->getNumResults() == 1 && isa<ShardingRuleOpInterface>(op) && dice.roll(every) == 0) {
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

// An LSTM of 5 steps, with its four gates as parts of one tensor, and its states as those of another, which all gates read.
constexpr const char *kGates = R"(
  nn.variable @w trainable : tensor<30x48xf64>
  nn.variable @b trainable : tensor<48xf64>
  nn.variable @peephole trainable : tensor<48xf64>
  func.func @train_step(%xs: tensor<5x4x6xf64>, %target: tensor<4x12xf64>) -> tensor<f64> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<30x48xf64>
    %b = nn.read @b : tensor<48xf64>
    %peephole = nn.read @peephole : tensor<48xf64>
    %p = nn.slice %peephole [12] to [24] by [1] : tensor<48xf64> -> tensor<12xf64>
    %wx = nn.slice %w [0, 0] to [6, 48] by [1, 1] : tensor<30x48xf64> -> tensor<6x48xf64>
    %wh = nn.slice %w [6, 0] to [30, 48] by [1, 1] : tensor<30x48xf64> -> tensor<24x48xf64>
    %rows = nn.reshape %xs : tensor<5x4x6xf64> -> tensor<20x6xf64>
    %product = nn.matmul %rows, %wx : tensor<20x6xf64>, tensor<6x48xf64> -> tensor<20x48xf64>
    %bias = nn.broadcast %b dims = [1] : tensor<48xf64> -> tensor<20x48xf64>
    %sums = nn.add %product, %bias : tensor<20x48xf64>
    %inputs = nn.reshape %sums : tensor<20x48xf64> -> tensor<5x4x48xf64>
    %zero = nn.constant dense<0.0> : tensor<4x12xf64>
    %h, %c, %all, %raw = nn.repeat 5 carried(%h0 = %zero, %c0 = %zero) sliced(%x = %inputs) captured(%v = %wh, %q = %p)
        : (tensor<4x12xf64>, tensor<4x12xf64>, tensor<5x4x48xf64>, tensor<24x48xf64>, tensor<12xf64>)
       -> (tensor<4x12xf64>, tensor<4x12xf64>, tensor<5x4x12xf64>, tensor<5x4x48xf64>) {
      %both = nn.concat %h0, %c0 dim = 1 : (tensor<4x12xf64>, tensor<4x12xf64>) -> tensor<4x24xf64>
      %r = nn.matmul %both, %v : tensor<4x24xf64>, tensor<24x48xf64> -> tensor<4x48xf64>
      %s = nn.add %r, %x : tensor<4x48xf64>
      %is = nn.slice %s [0, 0] to [4, 12] by [1, 1] : tensor<4x48xf64> -> tensor<4x12xf64>
      %os = nn.slice %s [0, 12] to [4, 24] by [1, 1] : tensor<4x48xf64> -> tensor<4x12xf64>
      %fs = nn.slice %s [0, 24] to [4, 36] by [1, 1] : tensor<4x48xf64> -> tensor<4x12xf64>
      %gs = nn.slice %s [0, 36] to [4, 48] by [1, 1] : tensor<4x48xf64> -> tensor<4x12xf64>
      %qs = nn.broadcast %q dims = [1] : tensor<12xf64> -> tensor<4x12xf64>
      %seen = nn.mul %qs, %c0 : tensor<4x12xf64>
      %fp = nn.add %fs, %seen : tensor<4x12xf64>
      %i = nn.sigmoid %is : tensor<4x12xf64>
      %o = nn.sigmoid %os : tensor<4x12xf64>
      %f = nn.sigmoid %fp : tensor<4x12xf64>
      %g = nn.tanh %gs : tensor<4x12xf64>
      %kept = nn.mul %f, %c0 : tensor<4x12xf64>
      %added = nn.mul %i, %g : tensor<4x12xf64>
      %c1 = nn.add %kept, %added : tensor<4x12xf64>
      %t = nn.tanh %c1 : tensor<4x12xf64>
      %h1 = nn.mul %o, %t : tensor<4x12xf64>
      nn.yield %h1, %c1, %h1, %s : tensor<4x12xf64>, tensor<4x12xf64>, tensor<4x12xf64>, tensor<4x48xf64>
    }
    %sum = nn.reduce sum %all dims = [0] : tensor<5x4x12xf64> -> tensor<4x12xf64>
    %y = nn.add %sum, %h : tensor<4x12xf64>
    %e = nn.sub %y, %target : tensor<4x12xf64>
    %sq = nn.mul %e, %e : tensor<4x12xf64>
    %loss = nn.reduce sum %sq dims = [0, 1] : tensor<4x12xf64> -> tensor<f64>
    %ramp = nn.index [0, 0, 1] : tensor<5x4x48xi64>
    %weights = nn.cast %ramp : tensor<5x4x48xi64> -> tensor<5x4x48xf64>
    %weighted = nn.mul %raw, %weights : tensor<5x4x48xf64>
    %other = nn.reduce sum %weighted dims = [0, 1, 2] : tensor<5x4x48xf64> -> tensor<f64>
    %total = nn.add %loss, %other : tensor<f64>
    return %total : tensor<f64>
  }
)";

void shardLastDim(ModuleOp module, StringRef name, StringRef axis) {
  auto variable = module.lookupSymbol<nn::VariableOp>(name);
  dist::Layout layout = dist::Layout::replicated(variable.getTensorType().getRank());
  layout.dims.back() = {StringAttr::get(module.getContext(), axis)};
  variable->setAttr(dist::kLayoutAttr, dist::LayoutAttr::get(module.getContext(), layout));
}

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

// The gates of the forward loop, and their gradients in the backward loop, are not sent: each device has its units of all gates.
TEST_CASE("repeats: sharded units of gates send the states a step", "[repeats]") {
  OwningOpRef<ModuleOp> module = parse(kGates);
  addUpdate(*module, /*seed=*/0);
  for (int64_t size : {2, 3, 4, 6}) {
    for (StringRef sharded : {"w", "b"}) {
      INFO("@" << sharded.str() << " over " << size << " devices");
      OwningOpRef<ModuleOp> after = module->clone();
      OpBuilder builder = OpBuilder::atBlockBegin(after->getBody());
      dist::MeshOp::create(builder, after->getLoc(), "mesh", meshOf(context(), {{"tp", size}}));
      pipelines::attachMachine(*after, variantOf(*after, /*splitVariables=*/true), job::Job()); // where each message takes a while
      shardLastDim(*after, sharded, "tp");
      REQUIRE(succeeded(partitionModule(*after, /*splitVariables=*/true)));
      std::map<Operation *, SmallVector<std::string>> ofLoops;
      after->walk([&](nn::RepeatOp repeat) { ofLoops[repeat] = {}; });
      after->walk([&](dist::CollectiveOpInterface op) {
        if (auto repeat = op->getParentOfType<nn::RepeatOp>()) {
          ofLoops[repeat].push_back(stringifyCollectiveKind(op.getCollectiveKind()).str());
        }
      });
      CHECK(ofLoops.size() == 2);
      for (const auto &[repeat, kinds] : ofLoops) {
        const bool isForward = !cast<nn::RepeatOp>(repeat).getReversed();
        CHECK(kinds == SmallVector<std::string>{isForward ? "all_gather" : "reduce_scatter"});
      }
      CHECK(compare(*module, *after) <= kTolerance);
    }
  }
}

TEST_CASE("repeats: parts on random layouts", "[repeats]") {
  const uint64_t base = testSeed() * 1000;
  int64_t interleaved = 0;
  for (const Axes &axes : {Axes{{"a", 2}}, Axes{{"a", 2}, {"b", 3}}, Axes{{"a", 2}, {"b", 2}}}) {
    dist::MeshAttr mesh = meshOf(context(), axes);
    for (uint64_t seed = base; seed < base + 25; ++seed) {
      INFO("seed " << seed << " on " << mesh.numDevices() << " devices");
      OwningOpRef<ModuleOp> module = parse(kGates);
      addUpdate(*module, seed);
      OwningOpRef<ModuleOp> after = module->clone();
      addLayouts(*after, seed, mesh, /*every=*/60);
      if (seed % 2 == 0) {
        shardLastDim(*after, "w", axes[seed / 2 % axes.size()].first);
      }
      PassManager passes(&context());
      pipelines::addLayoutPasses(passes, variantOf(*after, /*splitVariables=*/true), job::Job());
      passes.addPass(layout::createInterleavePartsPass());
      REQUIRE(succeeded(passes.run(*after)));
      after->walk([&](nn::SliceOp op) { interleaved += op.getType().getRank() > 2; });
      PassManager rest(&context());
      pipelines::addDistPasses(rest, variantOf(*after));
      REQUIRE(succeeded(rest.run(*after)));
      CHECK(compare(*module, *after) <= kTolerance);
    }
  }
  CHECK(interleaved > 20);
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

} // namespace ashlar::test::repeats_test
