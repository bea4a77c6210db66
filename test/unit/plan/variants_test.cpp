// SPDX-License-Identifier: Apache-2.0
//
// Which variants a job asks for, and two variants in one module.

#include "compiler/job/job.h"
#include "compiler/pipelines/pipelines.h"
#include "compiler/pipelines/plugin_passes.h"
#include "dialects/exec/exec.h"
#include "passes/lower/passes.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

namespace ashlar::test::variants_test {

using namespace mlir;
using Catch::Matchers::Contains;

namespace {

job::Job jobOf(const std::string &text) {
  return llvm::cantFail(job::parseJobText(text, "job"));
}

const char *const kTraining = "loss { softmax_cross_entropy { logits: \"y\" labels: \"l\" } } optimizer { sgd {} learning_rate: 0.1 } ";

// A module after its memory plan.
OwningOpRef<ModuleOp> planned(const std::string &variant, const std::string &text) {
  OwningOpRef<ModuleOp> module = test::parse(text);
  PassManager passes(module->getContext());
  lower::PlanMemoryPassOptions options;
  options.variantName = variant;
  passes.addPass(lower::createPlanMemoryPass(options));
  REQUIRE(succeeded(passes.run(*module)));
  return module;
}

// A module after lowering that copies a constant into a variable and runs one kernel.
OwningOpRef<ModuleOp> lowered(const std::string &variant, const std::string &constant, const std::string &op) {
  return planned(variant, R"(
    nn.variable @w : tensor<2xf32>
    func.func @init() attributes {nn.program = #nn.program<init>} {
      %c = nn.constant dense<)" +
                              constant + R"(> : tensor<2xf32>
      nn.write @w, %c : tensor<2xf32>
      return
    }
    func.func @forward(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
      %y = exec.fusion loop(%x) : (tensor<2xf32>) -> tensor<2xf32> {
      ^bb0(%a: tensor<2xf32>):
        %r = nn.)" + op + R"( %a : tensor<2xf32>
        exec.yield %r : tensor<2xf32>
      }
      return %y : tensor<2xf32>
    })");
}

template <typename Op> size_t count(ModuleOp module) {
  return llvm::range_size(module.getOps<Op>());
}

} // namespace

TEST_CASE("variants: a training job has a default and a deterministic one", "[plan][variants]") {
  pipelines::VariantList list =
      pipelines::listVariants(jobOf(std::string(kTraining) + "global_batch: 64 mesh { axes { name: \"b\" size: 4 } }"));
  REQUIRE(list.deterministicRefusal.empty());
  REQUIRE(list.variants.size() == 2);
  REQUIRE(list.variants[0].name == "default");
  REQUIRE(list.variants[0].mesh == std::vector<pipelines::Axis>{{"b", 4}});
  REQUIRE(list.variants[0].devicesPerProcess == 1);
  REQUIRE(list.variants[1].name == "deterministic");
  REQUIRE(list.variants[1].mesh == std::vector<pipelines::Axis>{{"b", 8}});
  REQUIRE(list.variants[1].batchAxes == std::vector<std::string>{"b"});
  REQUIRE(list.variants[1].devicesPerProcess == 2);
}

TEST_CASE("settings of rules are attributes for parameters, and no layouts", "[plan][variants]") {
  OwningOpRef<ModuleOp> module = test::parse("");
  job::Job job = jobOf("mode: SEMI_AUTO rules { match: \"a\" weight_decay: 0.5 layout: \"[{tp}]\" priority: 3 } rules { match: \"b\" }");
  job.mutable_rules(1)->set_comm_fusion(7);
  job.mutable_rules(1)->set_optimizer_parallel(false);
  pipelines::attachSettings(*module, job);
  pipelines::attachRules(*module, job);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  INFO(text);
  CHECK_THAT(text, Contains("dist.rules = [#dist.rule<match = \"a\", layout = \"[{tp}]\", priority = 3, origin = \"job:1\">]"));
  CHECK_THAT(text,
             Contains("#dist.setting<match = \"a\", values = {nn.weight_decay = 5.000000e-01 : f64}, priority = 3, origin = \"job:1\">"));
  CHECK_THAT(text, Contains("#dist.setting<match = \"b\", values = {dist.comm_fusion = 7 : i64, dist.optimizer_parallel = false}, origin"));
}

TEST_CASE("variants: one device plays all chunks", "[plan][variants]") {
  pipelines::VariantList list = pipelines::listVariants(jobOf(std::string(kTraining) + "global_batch: 64 deterministic { chunks: 16 }"));
  REQUIRE(list.variants[0].mesh.empty());
  REQUIRE(list.variants[1].mesh == std::vector<pipelines::Axis>{{"dp", 16}});
  REQUIRE(list.variants[1].devicesPerProcess == 16);
}

TEST_CASE("variants: what is known of the machine stands on the mesh, a new one or one that is there", "[plan][variants]") {
  job::Job job =
      jobOf("mesh { axes { name: \"dp\" size: 2 } axes { name: \"tp\" size: 2 } device_ids: [0, 2, 1, 3] } machine { ranks_per_host: 2 "
            "intra_host { latency_us: 0.2 bandwidth_gb_per_s: 29 } inter_host { latency_us: 5.2 bandwidth_gb_per_s: 1.2 } }");
  pipelines::Variant variant = pipelines::listVariants(job).variants.front();
  for (const char *text : {"module {}", "module { dist.mesh @mine <[\"dp\" = 2, \"tp\" = 2]> }"}) {
    INFO(text);
    OwningOpRef<ModuleOp> module = test::parse(text);
    pipelines::attachMachine(*module, variant, job);
    REQUIRE(count<dist::MeshOp>(*module) == 1);
    dist::MeshOp mesh = dist::findMesh(*module);
    REQUIRE(succeeded(mesh.verify()));
    CHECK((mesh.getMesh().getAxes().back() == "tp" && mesh.getMesh().numDevices() == 4));
    CHECK(mesh.getDeviceIds() == ArrayRef<int64_t>{0, 2, 1, 3});
    // Ranks 0 and 2 are on two hosts, so tp is between hosts.
    CHECK(mesh.getCostsAttr().getLatencyNs() == ArrayRef<int64_t>{200, 5200});
    CHECK(mesh.getCostsAttr().getBytesPerUs() == ArrayRef<int64_t>{29000, 1200});
  }
}

TEST_CASE("variants: always deterministic leaves one variant", "[plan][variants]") {
  pipelines::VariantList list = pipelines::listVariants(jobOf(std::string(kTraining) + "global_batch: 64 deterministic { always: true }"));
  REQUIRE(list.variants.size() == 1);
  REQUIRE(list.variants[0].name == "deterministic");
}

TEST_CASE("variants: what cannot be cut into chunks is refused with the numbers", "[plan][variants]") {
  pipelines::VariantList batch = pipelines::listVariants(jobOf(std::string(kTraining) + "global_batch: 20"));
  REQUIRE(batch.variants.size() == 1);
  REQUIRE_THAT(batch.deterministicRefusal, Contains("8 chunks, which do not divide the global batch of 20"));
  pipelines::VariantList ranks =
      pipelines::listVariants(jobOf(std::string(kTraining) + "global_batch: 24 mesh { axes { name: \"b\" size: 3 } }"));
  REQUIRE_THAT(ranks.deterministicRefusal, Contains("8 chunks, which cannot be shared evenly by 3 ranks"));
  REQUIRE_THAT(pipelines::listVariants(jobOf("global_batch: 8")).deterministicRefusal, Contains("only runs the model"));
}

TEST_CASE("variants: a process of the cuda target plays one device", "[plan][variants]") {
  job::Job job = jobOf(std::string(kTraining) + "global_batch: 64 allow_tf32: true");
  pipelines::VariantList list = pipelines::listVariants(job, exec::Target::Cuda);
  REQUIRE(list.variants.size() == 1);
  REQUIRE(list.variants[0].target == exec::Target::Cuda);
  REQUIRE(list.variants[0].allowTf32);
  REQUIRE_THAT(list.deterministicRefusal, Contains("which the target cuda cannot; compile for cpu"));
}

TEST_CASE("variants: merging keeps equal constants and kernels once", "[plan][variants]") {
  test::context().loadDialect<exec::ExecDialect>();
  OwningOpRef<ModuleOp> a = lowered("default", "[1.0, 2.0]", "relu"), b = lowered("deterministic", "[1.0, 2.0]", "relu");
  pipelines::mergeVariants(*a, *b);
  REQUIRE(count<exec::VariantOp>(*a) == 2);
  REQUIRE(count<exec::ConstantOp>(*a) == 1);
  REQUIRE(count<func::FuncOp>(*a) == 1);
  a->walk([](exec::KernelOp call) { REQUIRE(call.getCallee() == "loop_0"); });
}

TEST_CASE("variants: merging moves other constants and keeps other kernels", "[plan][variants]") {
  test::context().loadDialect<exec::ExecDialect>();
  OwningOpRef<ModuleOp> a = lowered("default", "[1.0, 2.0]", "relu"), b = lowered("deterministic", "[3.0, 4.0]", "exp");
  pipelines::mergeVariants(*a, *b);
  REQUIRE(count<exec::ConstantOp>(*a) == 2);
  REQUIRE(count<func::FuncOp>(*a) == 2);
  std::vector<uint64_t> offsets;
  a->walk([&](exec::CopyOp copy) { offsets.push_back(copy.getSource().getOffset()); });
  REQUIRE(offsets == std::vector<uint64_t>{0, 64});
  PassManager passes(a->getContext());
  passes.addPass(lower::createVerifyExecPass());
  REQUIRE(succeeded(passes.run(*a)));
}

TEST_CASE("variants: merging moves the rows of other constants", "[plan][variants]") {
  test::context().loadDialect<exec::ExecDialect>();
  auto loop = [](const std::string &variant, const std::string &stack) {
    return planned(variant, R"(
      func.func @forward() -> (tensor<f32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
        %first = nn.constant dense<0.0> : tensor<f32>
        %xs = nn.constant dense<)" +
                                stack + R"(> : tensor<3xf32>
        %y = nn.repeat 3 reversed carried(%c = %first) sliced(%x = %xs) : (tensor<f32>, tensor<3xf32>) -> tensor<f32> {
          nn.yield %x : tensor<f32>
        }
        return %y : tensor<f32>
      })");
  };
  auto rowsOf = [](ModuleOp module) {
    std::vector<std::pair<uint64_t, std::vector<int64_t>>> rows; // offsets and strides
    module.walk([&](exec::CopyOp copy) {
      if (exec::BufferAttr source = copy.getSource(); !source.getStrides().empty() && source.getSpace() == exec::Space::Constant) {
        rows.emplace_back(source.getOffset(), source.getStrides());
      }
    });
    return rows;
  };
  OwningOpRef<ModuleOp> a = loop("default", "[1.0, 2.0, 3.0]"), b = loop("deterministic", "[4.0, 5.0, 6.0]");
  const auto row = rowsOf(*a).at(0);
  REQUIRE(row.second == std::vector<int64_t>{-4});
  pipelines::mergeVariants(*a, *b);
  REQUIRE(count<exec::ConstantOp>(*a) == 3);
  const auto rows = rowsOf(*a);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == row);
  CHECK(rows[1].second == row.second);
  auto constants = llvm::to_vector(a->getOps<exec::ConstantOp>());
  CHECK(rows[1].first == constants.back().getOffset() + 2 * sizeof(float));
}

namespace {

// The passes in a pipeline, in order; those of a point bear its name.
std::vector<std::string> namesOf(OpPassManager &passes) {
  std::vector<std::string> names;
  for (Pass &pass : passes) {
    names.push_back(pass.getArgument().str());
  }
  return names;
}

struct PointPass : PassWrapper<PointPass, OperationPass<ModuleOp>> {
  explicit PointPass(const char *name) : name(name) {}
  StringRef getArgument() const final { return name; }
  void runOnOperation() final {}
  const char *name;
};

bool addsPoints = false; // adders are of the process

void addPoint(pipelines::PassPoint point, OpPassManager &passes) {
  if (addsPoints) {
    passes.addPass(std::make_unique<PointPass>(point == pipelines::PassPoint::Model  ? "model"
                                               : point == pipelines::PassPoint::Step ? "step"
                                                                                     : "device"));
  }
}

} // namespace

TEST_CASE("passes of plugins: each point has its place", "[pipelines]") {
  pipelines::addPluginPasses(addPoint);
  addsPoints = true;
  PassManager train(&test::context()), fusion(&test::context());
  pipelines::addTrainPasses(train, jobOf(kTraining));
  pipelines::addFusionPasses(fusion, pipelines::Variant());
  addsPoints = false;
  std::vector<std::string> names = namesOf(train);
  CHECK(names.front() == "model");
  CHECK(names[names.size() - 2] == "step");
  CHECK(names.back() == "ashlar-verify-train");
  CHECK(llvm::count(names, "device") == 0);
  CHECK(namesOf(fusion).front() == "device");
}

} // namespace ashlar::test::variants_test
