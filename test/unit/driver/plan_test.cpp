// SPDX-License-Identifier: Apache-2.0
//
// What ashlarc plan says of a mesh: a step by hand, and the order of the table.

#include "compiler/planning/forecast.h"
#include "compiler/planning/mesh_search.h"
#include "compiler/planning/plan_table.h"
#include "compiler/planning/planned_stages.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/AsmParser/AsmParser.h"

#include <catch2/catch.hpp>

namespace ashlar::test::plan_test {

using namespace mlir;

namespace {

// A model of one product whose sum over the batch is returned; between hosts where `machine` says so.
OwningOpRef<ModuleOp> makeModel() {
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [100], bytes_per_us = [1000]>}
    nn.variable @w trainable : tensor<4x16xf32>
    func.func @forward(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, nn.name = "x"})
        -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>, nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
      %w = nn.read @w : tensor<4x16xf32>
      %y = nn.matmul %x, %w : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
      %s = nn.reduce sum %y dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
      return %s : tensor<16xf32>
    }
  )");
  (*module)->setAttr(dist::kDeviceAttr,
                     parseAttribute("#dist.device<flops_per_us = 1000, narrow_flops_per_us = 1, bytes_per_us = 1000000>", &context()));
  return module;
}

planning::PlannedMesh meshOf(const std::string &name, std::optional<int64_t> stepPs, uint64_t bytes = 0) {
  planning::PlannedMesh mesh;
  mesh.axes = {{name, 2}};
  mesh.devices = 2;
  if (stepPs) {
    mesh.forecast.emplace();
    mesh.forecast->stepPs = *stepPs;
    mesh.forecast->memory.parts = {{"parameters", bytes / 4}, {"temporaries", bytes - bytes / 4}};
    mesh.forecast->leastBytes = bytes;
  } else {
    mesh.refusal = "no axis";
  }
  return mesh;
}

} // namespace

// By hand: 4 x 4 x 16 x 2 = 512 operations of the product and 64 of the sum, one a nanosecond; an all-reduce of 64 bytes between two takes
// two messages of 100 ns and 64 bytes at one a nanosecond. Parameters are 256 bytes; a device takes 64 and gives 64; the product, 256
// bytes, lies beside its sum in the rest of a page.
TEST_CASE("forecast: time and memory of a small model", "[forecast]") {
  OwningOpRef<ModuleOp> module = makeModel();
  pipelines::Variant variant = variantOf(*module);
  PassManager passes(&context());
  pipelines::addLayoutPasses(passes, variant, job::Job());
  REQUIRE(succeeded(passes.run(*module)));
  FailureOr<planning::Forecast> found = planning::forecast(std::move(module), variant, job::Job());
  REQUIRE(succeeded(found));
  CHECK(found->computePs == 576 * 1000);
  CHECK(found->sendPs == 264 * 1000);
  CHECK(found->exposedPs == 264 * 1000); // its link keeps the device busy
  CHECK(found->stepPs == 840 * 1000);
  CHECK(found->bytesSent == 64);
  CHECK(!found->bubble);
  auto bytesOf = [&](StringRef name) {
    uint64_t bytes = 0;
    for (const lower::MemoryPart &part : found->memory.parts) {
      bytes += part.name == name ? part.bytes : 0;
    }
    return bytes;
  };
  CHECK(bytesOf("parameters") == 256);
  CHECK(bytesOf("inputs and outputs") == 128);
  CHECK(bytesOf("temporaries") == 4096 - 256 - 128);
  CHECK(bytesOf("matrix products") == 0); // it is too small for the library
  CHECK(bytesOf("batches") == 0);         // a model gets its inputs at once
}

TEST_CASE("forecast: a search compares strategies by it, under the limit unless rematerialization keeps that", "[forecast]") {
  OwningOpRef<ModuleOp> module = makeModel();
  pipelines::Variant variant = variantOf(*module);
  job::Job job;
  planning::searchByForecast(variant, job, 80); // which layouts are not searched for
  CHECK(!variant.search);
  variant.search.emplace();
  planning::searchByForecast(variant, job, 80);
  CHECK(variant.search->memoryLimit == 80);
  const std::optional<search::LoweredCost> cost = variant.search->costOfLowered(module->clone());
  REQUIRE(cost);
  CHECK(cost->stepPs == 840 * 1000);
  CHECK(cost->bytes >= 4096);
  job.set_recompute(job::Recompute::AUTO);
  planning::searchByForecast(variant, job, 80);
  CHECK(variant.search->memoryLimit == 0);
}

// One product of 512 x 1024 x 512 that runs a model: its weight, 2 MiB, is ordered once, or by the call, which then keeps panels of it.
TEST_CASE("plan: weights that are left out are spare as far as calls then need no more", "[plan]") {
  auto plan = [](int64_t limit) {
    OwningOpRef<ModuleOp> module = parse(R"(
      dist.mesh @mesh <["dp" = 1]>
      nn.variable @w : tensor<512x1024xf32>
      func.func @forward(%x: tensor<512x512xf32> {nn.name = "x"}) -> (tensor<512x1024xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
        %w = nn.read @w : tensor<512x1024xf32>
        %y = nn.matmul %x, %w : tensor<512x512xf32>, tensor<512x1024xf32> -> tensor<512x1024xf32>
        return %y : tensor<512x1024xf32>
      }
    )");
    pipelines::Variant variant = variantOf(*module);
    PassManager passes(&context());
    pipelines::addLowerPasses(passes, variant, limit);
    REQUIRE(succeeded(passes.run(*module)));
    return planning::countMemory(*module, variant).front();
  };
  const lower::MemoryUse ordered = plan(/*limit=*/0);
  CHECK(ordered.spareBytes > 0);
  const lower::MemoryUse plain = plan(static_cast<int64_t>(ordered.bytes()) - 1);
  CHECK(plain.bytes() == ordered.bytes() - ordered.spareBytes);
  CHECK(plain.spareBytes == 0);
}

TEST_CASE("plan: meshes of a number of devices", "[plan]") {
  using Sizes = std::vector<std::vector<int64_t>>;
  CHECK(planning::factorise(8, 2) == Sizes{{8, 1}, {4, 2}, {2, 4}, {1, 8}});
  CHECK(planning::factorise(6, 1) == Sizes{{6}});
  CHECK(planning::factorise(1, 2) == Sizes{{1, 1}});
  CHECK(planning::factorise(1, 0) == Sizes{{}});
  CHECK(planning::factorise(2, 0).empty());
  Sizes three = planning::factorise(12, 3); // 2^2 3: 6 ways for the twos, 3 for the three
  CHECK(three.size() == 18);
  CHECK(llvm::all_of(three, [](const std::vector<int64_t> &sizes) { return sizes[0] * sizes[1] * sizes[2] == 12; }));
}

TEST_CASE("plan: what fits comes first, the fastest first of all", "[plan]") {
  planning::PlanTable table{"model",
                            "cpu",
                            1000,
                            {meshOf("refused", std::nullopt), meshOf("large", 1000, 1001), meshOf("slow", 3000, 1000),
                             meshOf("fast", 2000, 999), meshOf("tie", 2000, 10)}};
  table.sort();
  std::vector<std::string> order;
  for (const planning::PlannedMesh &mesh : table.meshes) {
    order.push_back(mesh.axes.front().name);
  }
  CHECK(order == std::vector<std::string>{"fast", "tie", "slow", "large", "refused"});
  std::string text = planning::planTableText(table);
  CHECK(text.find("3 of 5 fit a device of 1.0 KB") != std::string::npos);
  CHECK(text.find("above 1.000 KB") != std::string::npos);
  CHECK(text.find("750 B temporaries") != std::string::npos);
  CHECK(text.find("bubble") == std::string::npos);
  table.meshes.front().forecast->bubble = 0.25;
  CHECK(planning::planTableText(table).find("25.0 %") != std::string::npos);
  CHECK(planning::planTableJson(table).find("\"refusal\": \"no axis\"") != std::string::npos);
}

} // namespace ashlar::test::plan_test
