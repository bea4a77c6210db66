// SPDX-License-Identifier: Apache-2.0
//
// Programs with layouts of their own, compiled and run under mpirun: pieces that devices exchange, and meshes whose points are played by
// other ranks. All move what they are given and change its sign, so results are exact.

#include "test/unit/data/temporary_folder.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/reference/parsed_module.h"

#include "compiler/pipelines/pipelines.h"
#include "compiler/target/constants.h"
#include "compiler/target/cpu/kernels.h"
#include "compiler/target/host_code.h"
#include "compiler/target/image_emitter.h"
#include "compiler/target/link.h"
#include "runtime/data/formats/npy.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ashlar::test::mesh_test {

using namespace mlir;
using Catch::Matchers::Contains;

namespace {

// Compiles @forward of the module, with layouts on its argument and result, to an executable at `path`; returns its instruction tables.
std::string compile(const std::string &text, const std::string &path) {
  OwningOpRef<ModuleOp> module = test::parse(text);
  PassManager passes(&test::context());
  pipelines::Variant variant = test::variantOf(*module);
  pipelines::addLayoutPasses(passes, variant, job::Job());
  pipelines::addDistPasses(passes, variant);
  pipelines::addLowerPasses(passes, variant);
  REQUIRE(succeeded(passes.run(*module)));
  target::IncludedFile constants = llvm::cantFail(target::writeConstants(*module, path + ".constants"));
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = cpu::translateKernels(*module, llvmContext);
  REQUIRE(code);
  target::ImageInfo info;
  info.modelName = "model";
  info.target = "cpu";
  llvm::cantFail(target::emitImage(*module, info, constants, *code));
  llvm::cantFail(target::emitObject(*code, path + ".o"));
  llvm::cantFail(target::linkExecutable(llvm::cantFail(target::findLinkFiles()), path + ".o", path));
  std::string tables;
  llvm::raw_string_ostream(tables) << *module;
  return tables;
}

// Compiles the program, runs it on 4 ranks, and checks that y = -x. Returns its instruction tables.
std::string runNegation(const std::string &text) {
  constexpr int64_t kRows = 8, kColumns = 6;
  test::TemporaryFolder folder;
  std::string base = folder.path() + "/";
  std::string tables = compile(text, base + "model");
  std::vector<float> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i + 1);
  }
  REQUIRE(rt::writeNpy(base + "x.npy", ASHLAR_RT_F32, {kRows, kColumns}, x.data()).ok());
  std::string command = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 timeout 60 "
                        "mpirun -n 4 " +
                        base + "model --threads 1 --input x=" + base + "x.npy --output y=" + base + "y.npy";
  for (const char *hosts : {"", "ASHLAR_FORCE_HOSTS=2 "}) { // by shared memory, and by messages
    CAPTURE(hosts);
    REQUIRE(std::system((hosts + command).c_str()) == 0);
    rt::NpyFile file;
    REQUIRE(rt::NpyFile::open(base + "y.npy", file).ok());
    const float *y = static_cast<const float *>(file.data());
    int64_t wrong = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      wrong += y[i] != -x[i];
    }
    CHECK(wrong == 0);
  }
  return tables;
}

std::string negation(const std::string &mesh, const std::string &from, const std::string &to) {
  return "dist.mesh @mesh " + mesh + "\nfunc.func @forward(%x: tensor<8x6xf32> {nn.name = \"x\", dist.layout = #dist.layout<" + from +
         ">}) -> (tensor<8x6xf32> {nn.name = \"y\", dist.layout = #dist.layout<" + to + R"(>}) attributes {nn.program = #nn.program<run>} {
    %0 = nn.neg %x : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  })";
}

} // namespace

TEST_CASE("execution: four ranks exchange pieces by a permute", "[execution][permute]") {
  std::string mesh = R"(<["x" = 2, "y" = 2]>)";
  CHECK_THAT(runNegation(negation(mesh, R"([{"x", "y"}, {}])", R"([{"y", "x"}, {}])")), Contains("exec.collective permute"));
  CHECK_THAT(runNegation(negation(mesh, R"([{}, {"x"}])", R"([{}, {"y"}])")), Contains("exec.collective permute"));
}

TEST_CASE("execution: mesh points may be played by any ranks", "[execution][device_ids]") {
  std::string mesh = R"(<["x" = 2, "y" = 2]> {device_ids = array<i64: 2, 0, 3, 1>})";
  CHECK_THAT(runNegation(negation(mesh, R"([{"x", "y"}, {}])", R"([{"y", "x"}, {}])")), Contains("device_ids = array<i64: 2, 0, 3, 1>"));
  CHECK_THAT(runNegation(negation(mesh, R"([{"x"}, {"y"}])", R"([{}, {"x"}])")), Contains("exec.collective"));
}

} // namespace ashlar::test::mesh_test
