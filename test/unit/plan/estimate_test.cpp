// SPDX-License-Identifier: Apache-2.0
//
// Estimates of the example jobs against the plans of their lowered programs.

#include "compiler/frontend/import.h"
#include "compiler/job/job.h"
#include "compiler/pipelines/local_model.h"
#include "compiler/pipelines/pipelines.h"
#include "dialects/exec/exec.h"
#include "passes/layout/redistribute/decide.h"
#include "passes/layout/redistribute/estimate.h"
#include "test/unit/data/temporary_folder.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/reference/parsed_module.h"
#include "tools/ashlar_zoo/models.h"
#include "tools/ashlar_zoo/write_model.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::estimate_test {

using namespace mlir;

namespace {

onnx::ModelProto modelOf(const std::string &job) {
  if (job == "linear") {
    return zoo::makeLinear({});
  }
  if (job == "mlp_hybrid") {
    return zoo::makeHybridMlp(512, 4);
  }
  return job.find("transformer") == 0 ? zoo::makeTransformer({}, {}) : zoo::makeMlp({}, 3, 512);
}

// A job of docs/jobs on its way through the compiler.
struct Placed {
  job::Job job;
  pipelines::Variant variant;
  OwningOpRef<ModuleOp> module;
};

// Returns the job's programs with all layouts inferred, on global shapes.
Placed inferLayouts(const std::string &name) {
  llvm::Expected<job::Job> parsed = job::parseJob(std::string(ASHLAR_SOURCE_DIR) + "/docs/jobs/" + name + ".txtpb");
  REQUIRE(static_cast<bool>(parsed));
  REQUIRE(!job::checkJob(*parsed));
  TemporaryFolder folder;
  std::string path = folder.file("model.onnx");
  REQUIRE(zoo::writeModel(modelOf(name), path).empty());
  frontend::ImportOptions options = frontend::makeImportOptions(*parsed);
  bool isHybrid = job::effectiveMode(*parsed) == job::HYBRID;
  if (isHybrid) {
    FailureOr<frontend::LocalModel> local = pipelines::describeLocalModel(*parsed, &context());
    REQUIRE(succeeded(local));
    options.local = *local;
  }
  llvm::Expected<OwningOpRef<ModuleOp>> module = frontend::importOnnx(path, options, &context());
  REQUIRE(static_cast<bool>(module));
  Placed placed{*parsed, pipelines::listVariants(*parsed).variants.front(), std::move(*module)};
  pipelines::attachRules(*placed.module, placed.job);
  PassManager passes(&context());
  if (isHybrid) {
    pipelines::addHybridPasses(passes);
  }
  pipelines::attachSettings(*placed.module, placed.job);
  pipelines::addTrainPasses(passes, placed.job);
  pipelines::addLayoutPasses(passes, placed.variant, placed.job);
  pipelines::attachMachine(*placed.module, placed.variant, placed.job);
  REQUIRE(succeeded(passes.run(*placed.module)));
  return placed;
}

layout::Estimate estimateOf(ModuleOp module) {
  dist::MeshOp mesh = dist::findMesh(module);
  FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(module, mesh.getMesh());
  REQUIRE(succeeded(problem));
  analysis::Planner planner(mesh);
  FailureOr<layout::Assignment> assignment = layout::decide(*problem, planner);
  REQUIRE(succeeded(assignment));
  return layout::estimate(*problem, *assignment, planner, analysis::findDeviceRates(module));
}

} // namespace

TEST_CASE("estimate: the memory of the example jobs is what is planned, within 5 %", "[plan][estimate]") {
  std::string name = GENERATE("mlp", "mlp_2d", "mlp_adamw", "mlp_hybrid", "mlp_mindspore", "mlp_tensor_parallel",
                              "transformer_tensor_parallel", "transformer_sequence_parallel");
  INFO(name);
  Placed placed = inferLayouts(name);
  int64_t estimated = estimateOf(*placed.module).memoryBytes();
  PassManager passes(&context());
  pipelines::addDistPasses(passes, placed.variant);
  pipelines::addLowerPasses(passes, placed.variant);
  REQUIRE(succeeded(passes.run(*placed.module)));
  auto variant = *placed.module->getOps<exec::VariantOp>().begin();
  auto planned = static_cast<int64_t>(variant.getArenaBytes());
  INFO("estimated " << estimated << ", planned " << planned);
  CHECK(std::abs(estimated - planned) <= planned / 20);
}

// By hand. One product of 8 x 4 by 4 x 16 on two devices, the batch split: 4 x 4 by 4 x 16 on each, 512 operations, which read 64 and 256
// bytes and write 256. The sum over the batch of its result is 16 numbers, reduced in a kernel that reads the product again, and sent once.
// What nobody uses costs nothing.
TEST_CASE("estimate: times and bytes of a small program", "[plan][estimate]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [100], bytes_per_us = [1000]>}
    nn.variable @w trainable : tensor<4x16xf32>
    func.func @forward(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) attributes {nn.program = #nn.program<run>} {
      %w = nn.read @w : tensor<4x16xf32>
      %y = nn.matmul %x, %w : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
      %s = nn.reduce sum %y dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
      %unused = nn.reduce max %y dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
      return %s : tensor<16xf32>
    }
  )");
  PassManager passes(&context());
  pipelines::addLayoutPasses(passes, variantOf(*module), job::Job());
  REQUIRE(succeeded(passes.run(*module)));
  auto estimateWith = [&](const char *rates) {
    (*module)->setAttr(dist::kDeviceAttr, parseAttribute(rates, &context()));
    return estimateOf(*module);
  };
  // Arithmetic decides: 512 operations of the product, 64 additions of the reduction, at 1 a nanosecond.
  layout::Estimate slow = estimateWith("#dist.device<flops_per_us = 1000, narrow_flops_per_us = 1, bytes_per_us = 1000000>");
  CHECK(slow.programs[0].computePs == 576 * 1000);
  // Memory decides: 64 + 256 + 256 bytes of the product, 256 + 64 of the reduction, at 1 a nanosecond.
  layout::Estimate fast = estimateWith("#dist.device<flops_per_us = 1000000000, narrow_flops_per_us = 1, bytes_per_us = 1000>");
  CHECK(fast.programs[0].computePs == 896 * 1000);
  // An all-reduce of 64 bytes between two: each sends 64, in two messages.
  CHECK(fast.programs[0].bytesSent == 64);
  CHECK(fast.programs[0].sendPs == (2 * 100 + 64) * 1000);
  CHECK(fast.parameterBytes == 256);
  CHECK(fast.stateBytes == 0);
  CHECK(fast.inputOutputBytes == 64 + 64);
  CHECK(fast.programs[0].peakBytes == 256 + 64); // the product, and its sum beside it
}

// By hand. Each device computes two products, 16 x 16 x 2 x 2 = 1024 operations each, which are summed over links that move data beside
// computing: an all-reduce of 1024 bytes takes 2 * 100 + 1024 ns at 1000 bytes a microsecond. The first starts after the first product
// and hides behind the second; the second one follows on the channel and hides behind nothing.
TEST_CASE("estimate: what computing hides of collectives", "[plan][estimate]") {
  auto estimateWith = [](const char *beside, int64_t handOverPs) {
    OwningOpRef<ModuleOp> module = parse(std::string(R"(
      dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [100], bytes_per_us = [1000])") +
                                         beside + R"(>}
      func.func @forward(%x: tensor<4x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %a: tensor<4x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                         %b: tensor<4x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
          -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{}, {}]>}, tensor<16x16xf32> {dist.layout = #dist.layout<[{}, {}]>}) attributes {nn.program = #nn.program<run>} {
        %0 = nn.matmul %x, %a transpose_a : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<16x16xf32>
        %1 = nn.matmul %x, %b transpose_a : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<16x16xf32>
        return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
      }
    )");
    PassManager passes(&context());
    pipelines::addLayoutPasses(passes, variantOf(*module), job::Job());
    REQUIRE(succeeded(passes.run(*module)));
    (*module)->setAttr(dist::kDeviceAttr,
                       parseAttribute("#dist.device<flops_per_us = 1000, narrow_flops_per_us = 1, bytes_per_us = 1000000>", &context()));
    dist::MeshOp mesh = dist::findMesh(*module);
    FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*module, mesh.getMesh());
    REQUIRE(succeeded(problem));
    analysis::Planner planner(mesh);
    FailureOr<layout::Assignment> assignment = layout::decide(*problem, planner);
    REQUIRE(succeeded(assignment));
    return layout::estimate(*problem, *assignment, planner, analysis::findDeviceRates(*module), handOverPs).programs.front();
  };
  constexpr int64_t kProductPs = 1024 * 1000, kSumPs = 1224 * 1000;
  layout::ProgramEstimate busy = estimateWith("", 0);
  CHECK(busy.computePs == 2 * kProductPs);
  CHECK(busy.sendPs == 2 * kSumPs);
  CHECK(busy.exposedPs == 2 * kSumPs);
  layout::ProgramEstimate beside = estimateWith(", beside = [0]", 0);
  CHECK(beside.sendPs == 2 * kSumPs);
  CHECK(beside.timePs() == kProductPs + 2 * kSumPs); // the channel is never idle behind the first product
  CHECK(beside.exposedPs == 2 * kSumPs - kProductPs);
  CHECK(estimateWith(", beside = [0]", 100 * 1000).timePs() == kProductPs + 2 * (kSumPs + 100 * 1000));
  CHECK(estimateWith(", beside = [0]", 2000 * 1000).exposedPs == 2 * kSumPs); // not worth it: one after the other
}

// By hand. The first product is read by the second one, and again when all four are done: an op that comes earlier in the text may be run
// later. So it lies in memory beside the second and the third one, 1024 bytes each; the fourth one is an output.
TEST_CASE("estimate: a value lies in memory up to the last of those that read it", "[plan][estimate]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 1]>
    func.func @forward(%x: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) attributes {nn.program = #nn.program<run>} {
      %a = nn.matmul %x, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %n = nn.neg %a : tensor<16x16xf32>
      %b = nn.matmul %a, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %c = nn.matmul %b, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      %d = nn.matmul %c, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      return %n, %d : tensor<16x16xf32>, tensor<16x16xf32>
    }
  )");
  PassManager passes(&context());
  pipelines::addLayoutPasses(passes, variantOf(*module), job::Job());
  REQUIRE(succeeded(passes.run(*module)));
  CHECK(estimateOf(*module).programs[0].peakBytes == 3 * 1024);
}

// By hand. A product of 32 rows, 64 columns and 64 inner, on one device and with its rows split over 8: 4 rows are another class, with a
// quarter of the rate, so an eighth of the work takes half of the time. Each call takes its launch, too.
TEST_CASE("estimate: classes of products are those of local shapes", "[plan][estimate]") {
  auto estimateWith = [](int64_t devices, const std::string &more) {
    OwningOpRef<ModuleOp> module = parse("dist.mesh @mesh <[\"dp\" = " + std::to_string(devices) + "]>" + R"(
      func.func @forward(%x: tensor<32x64xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %w: tensor<64x64xf32> {dist.layout = #dist.layout<[{}, {}]>})
          -> (tensor<32x64xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) attributes {nn.program = #nn.program<run>} {
        %0 = nn.matmul %x, %w : tensor<32x64xf32>, tensor<64x64xf32> -> tensor<32x64xf32>
        %1 = nn.relu %0 : tensor<32x64xf32>
        return %1 : tensor<32x64xf32>
      }
    )");
    PassManager passes(&context());
    pipelines::addLayoutPasses(passes, variantOf(*module), job::Job());
    REQUIRE(succeeded(passes.run(*module)));
    std::string rates = "#dist.device<flops_per_us = 1024, narrow_flops_per_us = 1, bytes_per_us = 1000000000" + more + ">";
    (*module)->setAttr(dist::kDeviceAttr, parseAttribute(rates, &context()));
    return estimateOf(*module).programs[0].computePs;
  };
  const std::string classes = "products = [<from = 1, flops_per_us = 256, narrow_flops_per_us = 1>, "
                              "<from = 8, flops_per_us = 1024, narrow_flops_per_us = 1>]";
  // 2 * 32 * 64 * 64 operations are 256 us, and 32 * 64 of the relu are 2.
  CHECK(estimateWith(1, "") == 258'000'000);
  CHECK(estimateWith(8, "") == 32'250'000);
  CHECK(estimateWith(1, ", " + classes) == 258'000'000);
  CHECK(estimateWith(8, ", " + classes) == 128'250'000);
  CHECK(estimateWith(1, ", launch_ns = 700") == 258'000'000 + 2 * 700'000); // the product and the kernel behind it
  CHECK(estimateWith(8, ", launch_ns = 700, " + classes) == 128'250'000 + 2 * 700'000);
}

// Products of bf16 and f16 have a rate of their own; a time that no number holds is the largest.
TEST_CASE("estimate: narrow products, and a device that is too slow", "[plan][estimate]") {
  auto estimateWith = [](const std::string &size, const char *rates) {
    std::string x = "tensor<" + size + "x" + size + "xbf16>", text = "dist.mesh @mesh <[\"dp\" = 1]>\nfunc.func @forward(%0: " + x +
                                                                     ") -> " + x + " attributes {nn.program = #nn.program<run>} {\n";
    int last = 0;
    for (; last < 1100; ++last) { // more than the longest times that can be added
      text += "%" + std::to_string(last + 1) + " = nn.matmul %" + std::to_string(last) + ", %0 : " + x + ", " + x + " -> " + x + "\n";
    }
    OwningOpRef<ModuleOp> module = parse(text + "return %" + std::to_string(last) + " : " + x + "\n}");
    PassManager passes(&context());
    pipelines::addLayoutPasses(passes, variantOf(*module), job::Job());
    REQUIRE(succeeded(passes.run(*module)));
    (*module)->setAttr(dist::kDeviceAttr, parseAttribute(rates, &context()));
    return estimateOf(*module).programs[0].computePs;
  };
  // 2 * 4 * 4 * 4 operations each, at 1 a nanosecond.
  CHECK(estimateWith("4", "#dist.device<flops_per_us = 1, narrow_flops_per_us = 1000, bytes_per_us = 1000000>") == 1100 * 128 * 1000);
  CHECK(estimateWith("8192", "#dist.device<flops_per_us = 1, narrow_flops_per_us = 1, bytes_per_us = 1>") == INT64_MAX);
}

} // namespace ashlar::test::estimate_test
