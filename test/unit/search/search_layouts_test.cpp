// SPDX-License-Identifier: Apache-2.0
//
// A search with a way to lower programs: what that says decides, and its memory is what has to keep the limit.

#include "passes/search/passes.h"
#include "passes/search/strategies.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

namespace ashlar::test::search_layouts_test {

using namespace mlir;

namespace {

using namespace search;
using dist::StrategyKind;

constexpr const char *kDevice =
    "module attributes {dist.device = #dist.device<flops_per_us = 80000, narrow_flops_per_us = 80000, bytes_per_us = 20000>} {\n"
    "dist.mesh @mesh <[\"x\" = 4]>\n";

// Many rows by a small matrix: data parallelism and the search are equally fast, and propagation, which computes all of it on each device,
// takes four times as long.
constexpr const char *kRows = R"(
  nn.variable @w trainable : tensor<64x64xf32> = dense<0.5> : tensor<64x64xf32>
  func.func @forward(%x: tensor<4096x64xf32>) -> tensor<4096x64xf32> attributes {nn.program = #nn.program<run>} {
    %w = nn.read @w : tensor<64x64xf32>
    %y = nn.matmul %x, %w : tensor<4096x64xf32>, tensor<64x64xf32> -> tensor<4096x64xf32>
    return %y : tensor<4096x64xf32>
  }
})";

// Rows that stay where they are by a large matrix: on all devices, 4.2 MB, it needs no communication; split by columns it needs less
// memory.
constexpr const char *kColumns = R"(
  nn.variable @w trainable : tensor<256x4096xf32> = dense<0.5> : tensor<256x4096xf32>
  func.func @forward(%x: tensor<512x256xf32> {dist.layout = #dist.layout<[{"x"}, {}]>})
      -> (tensor<512x4096xf32> {dist.layout = #dist.layout<[{"x"}, {}]>}) attributes {nn.program = #nn.program<run>} {
    %w = nn.read @w : tensor<256x4096xf32>
    %y = nn.matmul %x, %w : tensor<512x256xf32>, tensor<256x4096xf32> -> tensor<512x4096xf32>
    return %y : tensor<512x4096xf32>
  }
})";

struct Searched {
  dist::SearchAttr attribute;
  std::map<StrategyKind, dist::StrategyAttr> strategies;
  bool isSplit = false; // the matrix
};

Searched search(const char *text, CostOfLowered costOfLowered, int64_t limit = 0) {
  OwningOpRef<ModuleOp> module = parse(std::string(kDevice) + text);
  PassManager passes(&context());
  SearchLayoutsPassOptions options;
  options.memoryLimit = limit;
  passes.addPass(createSearchLayoutsPass(options, std::move(costOfLowered)));
  REQUIRE(succeeded(passes.run(*module)));
  Searched searched;
  searched.attribute = (*module)->getAttrOfType<dist::SearchAttr>(dist::kSearchAttr);
  for (dist::StrategyAttr strategy : searched.attribute.getStrategies()) {
    searched.strategies[strategy.getKind()] = strategy;
  }
  const auto variable = *module->getOps<nn::VariableOp>().begin();
  const auto layout = variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
  searched.isSplit = layout && !layout.getLayout().isReplicated();
  return searched;
}

// Returns the estimate of the layouts that are given, which lowering would come to if it only held more bytes besides.
LoweredCost estimated(OwningOpRef<ModuleOp> given, int64_t besides = 0) {
  analysis::Planner planner(dist::findMesh(*given), analysis::Cuts::Allowed);
  std::optional<Prediction> prediction = predict(std::move(given), planner);
  REQUIRE(prediction);
  return {prediction->stepPs, prediction->memoryBytes + besides};
}

} // namespace

TEST_CASE("search: strategies are compared by their lowered programs", "[search]") {
  for (int64_t dataPs : {10, 30}) { // of a step; the search is lowered after it
    std::vector<int64_t> steps = {20, dataPs};
    const Searched searched = search(kRows, [&](OwningOpRef<ModuleOp>) -> std::optional<LoweredCost> {
      REQUIRE_FALSE(steps.empty()); // propagation is not worth it
      const int64_t step = steps.back();
      steps.pop_back();
      return LoweredCost{step, 7};
    });
    CHECK(steps.empty());
    CHECK(searched.attribute.getTaken() == (dataPs == 10 ? StrategyKind::DataParallel : StrategyKind::Search));
    CHECK(searched.strategies.at(StrategyKind::DataParallel).getStepPs() == dataPs);
    CHECK(searched.strategies.at(StrategyKind::Search).getStepPs() == 20);
    CHECK(searched.strategies.at(StrategyKind::Search).getBytes() == 7);
    CHECK(searched.strategies.at(StrategyKind::Search).getIsLowered());
    CHECK_FALSE(searched.strategies.at(StrategyKind::Propagation).getIsLowered());
  }
}

TEST_CASE("search: what cannot be lowered is not taken", "[search]") {
  int calls = 0;
  const Searched one = search(kRows, [&](OwningOpRef<ModuleOp>) { return ++calls == 1 ? std::nullopt : std::optional(LoweredCost{9, 9}); });
  CHECK(one.attribute.getTaken() == StrategyKind::Search);
  CHECK(one.strategies.count(StrategyKind::DataParallel) == 0);
  const Searched none = search(kRows, [](OwningOpRef<ModuleOp>) { return std::optional<LoweredCost>(); }); // compiling says why
  CHECK_FALSE(none.attribute.getTakenStrategy().getIsLowered());
}

TEST_CASE("search: what lowered programs hold besides is a constant under the limit", "[search]") {
  constexpr int64_t kLimit = 6850000, kBesides = 500000;
  const Searched free = search(kColumns, [](OwningOpRef<ModuleOp> given) { return std::optional(estimated(std::move(given))); }, kLimit);
  CHECK_FALSE(free.isSplit);
  CHECK(free.attribute.getTakenStrategy().getBytes() > kLimit - kBesides);
  const Searched more =
      search(kColumns, [](OwningOpRef<ModuleOp> given) { return std::optional(estimated(std::move(given), kBesides)); }, kLimit);
  CHECK(more.isSplit);
  CHECK(more.attribute.getTakenStrategy().getBytes() <= kLimit);
  CHECK(more.attribute.getTakenStrategy().getStepPs() > free.attribute.getTakenStrategy().getStepPs());
  // Where nothing fits with it, the smallest is taken, and the memory plan names the excess.
  const Searched least =
      search(kColumns, [](OwningOpRef<ModuleOp> given) { return std::optional(estimated(std::move(given), 3 * kBesides)); }, kLimit);
  CHECK(least.isSplit);
  CHECK(least.attribute.getTakenStrategy().getBytes() > kLimit);
}

} // namespace ashlar::test::search_layouts_test
