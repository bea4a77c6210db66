// SPDX-License-Identifier: Apache-2.0
//
// What PTX and machine code of kernels look like.

#include "compiler/target/cuda/kernels.h"
#include "test/unit/cuda/hand_kernels.h"
#include "test/unit/data/temporary_folder.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

namespace ashlar::test::code_test {

using namespace mlir;
using Catch::Matchers::Contains;

TEST_CASE("ptx: neighbouring elements are one access of 16 bytes", "[cuda][ptx]") {
  std::string ptx = test::ptxOf(test::elementwise("%y = arith.addf %x, %x : f32"));
  INFO(ptx);
  CHECK_THAT(ptx, Contains(".visible .entry loop_0(") && Contains(".reqntid 128") && Contains(".target sm_90"));
  CHECK_THAT(ptx, Contains(".param .u64 .ptr .align 64 loop_0_param_1"));
  CHECK_THAT(ptx, Contains("ld.global.nc.v4") && Contains("st.global.v4"));
  CHECK_THAT(ptx, !Contains("ld.global.nc.b32") && !Contains("st.global.b32"));
}

TEST_CASE("ptx: exp, log, tanh and erf are libdevice's, in accurate forms", "[cuda][ptx]") {
  std::string ptx = test::ptxOf(test::elementwise("%t = math.exp %x : f32\n%u = math.tanh %t : f32\n%y = math.erf %u : f32"));
  INFO(ptx);
  CHECK_THAT(ptx, Contains("ex2.approx") && !Contains("tanh.approx") && !Contains("call"));
  CHECK_THAT(ptx, Contains("ld.global.nc.v4") && Contains("st.global.v4"));
  CHECK_THAT(test::ptxOf(test::elementwise("%y = math.log %x : f32")),
             Contains("fma.rn.f32") && !Contains("lg2.approx") && !Contains("call"));
}

TEST_CASE("ptx: quotients and roots are IEEE, subnormal numbers stay", "[cuda][ptx]") {
  std::string ptx = test::ptxOf(test::elementwise("%t = math.sqrt %x : f32\n%u = arith.mulf %x, %t : f32\n%y = arith.divf %u, %x : f32"));
  CHECK_THAT(ptx, Contains("sqrt.rn.f32") && Contains("div.rn.f32") && !Contains(".ftz"));
}

TEST_CASE("ptx: 16-bit floats convert by the chip's instructions", "[cuda][ptx]") {
  // More than one operation between the conversions: a single one would be done in 16 bits, which rounds alike.
  std::string square = "%t = arith.extf %x : TYPE to f32\n%u = math.exp %t : f32\n%y = arith.truncf %u : f32 to TYPE";
  for (unsigned capability : {80, 90}) {
    INFO(capability);
    CHECK_THAT(test::ptxOf(test::elementwise(square, "bf16"), capability), Contains("cvt.rn.bf16"));
    CHECK_THAT(test::ptxOf(test::elementwise(square, "f16"), capability), Contains("cvt.rn.f16"));
  }
  CHECK_THAT(test::ptxOf(test::elementwise(square, "bf16")),
             Contains("ld.global.nc.v2.b32") || Contains("ld.global.nc.b64") || Contains("ld.global.nc.v4.b16"));
}

TEST_CASE("ptx: reductions use shuffles, barriers and shared memory", "[cuda][ptx]") {
  std::string ptx = test::ptxOf(test::rowSums());
  INFO(ptx);
  CHECK_THAT(ptx, Contains(".shared .align 16") && Contains("bar.sync") && Contains("shfl.sync.bfly.b32"));
  CHECK_THAT(ptx, Contains(".param .u64 .ptr .align 1 rows_0_param_2"));          // a coordinate lies inside a buffer
  CHECK_THAT(ptx, Contains("ld.global.nc.b64") && !Contains("ld.global.nc.b32")); // yet as an i64 should
}

TEST_CASE("ptx: indices are of 32 bits where they fit", "[cuda][ptx]") {
  auto gather = [](const std::string &size) {
    std::string type = "memref<" + size + "xi8>";
    return "func.func private @gather(%a: " + type + ", %b: memref<64xi8>, %places: memref<64xi32>) " +
           "attributes {exec.extent = 64 : i64, exec.grain = 1 : i64} {\n" +
           "%block = gpu.block_id x\n%c0 = arith.constant 0 : index\n%p = memref.load %places[%block] : memref<64xi32>\n" +
           "%q = memref.load %places[%c0] : memref<64xi32>\n%pi = arith.index_cast %p : i32 to index\n" +
           "%qi = arith.index_cast %q : i32 to index\n%i = arith.addi %pi, %qi : index\n%x = memref.load %a[%i] : " + type +
           "\nmemref.store %x, %b[%block] : memref<64xi8>\nreturn\n}\n";
  };
  CHECK_THAT(test::ptxOf(gather("1000000")), Contains("add.s32"));
  CHECK_THAT(test::ptxOf(gather("3000000000")), !Contains("add.s32"));
  std::string both = gather("1000000");
  both.replace(both.find("@gather"), 7, "@tiny");
  std::string ptx = test::ptxOf(both + gather("3000000000")); // both widths in one module
  CHECK_THAT(ptx, Contains(".entry tiny(") && Contains(".entry gather("));
}

TEST_CASE("ptx: a grid that no GPU can run is refused", "[cuda][ptx]") {
  for (std::string grid : {"exec.extent = 2147483648 : i64, exec.grain = 32 : i64", "exec.extent = 0 : i64, exec.grain = 32 : i64",
                           "exec.extent = 1 : i64, exec.grain = 2048 : i64"}) {
    std::string message;
    ScopedDiagnosticHandler handler(&test::cudaContext(), [&](Diagnostic &diagnostic) { message += diagnostic.str(); });
    OwningOpRef<ModuleOp> module = test::parseKernels("func.func private @k(%a: memref<4xf32>) attributes {" + grid + "} {\nreturn\n}");
    CHECK(failed(cuda::kernelsToPtx(*module, llvm::cantFail(cuda::findToolkit()), cuda::Chip{90})));
    CHECK_THAT(message, Contains("a GPU runs 1 to 2147483647 blocks of 1 to 1024"));
  }
}

TEST_CASE("device code: machine code for each chip, PTX of the newest", "[cuda]") {
  test::TemporaryFolder folder;
  std::vector<cuda::Chip> chips = llvm::cantFail(cuda::parseChips("sm_80,sm_90"));
  OwningOpRef<ModuleOp> module = test::parseKernels(test::rowSums() + test::elementwise("%y = math.exp %x : f32"));
  FailureOr<std::vector<target::DeviceCode>> codes =
      cuda::compileKernels(*module, llvm::cantFail(cuda::findToolkit()), chips, folder.path());
  REQUIRE(succeeded(codes));
  REQUIRE(codes->size() == 3);
  for (size_t i : {0, 1}) {
    CHECK((*codes)[i].arch == chips[i].name());
    auto file = llvm::cantFail(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile((*codes)[i].file.path, false, false)));
    auto elf = llvm::cantFail(llvm::object::ELF64LEObjectFile::create(file->getMemBufferRef()));
    CHECK(static_cast<const llvm::object::ELFObjectFileBase &>(elf).getEMachine() == static_cast<uint16_t>(llvm::ELF::EM_CUDA));
    std::set<std::string> symbols;
    for (const auto &symbol : elf.symbols()) {
      symbols.insert(llvm::cantFail(symbol.getName()).str());
    }
    CHECK(symbols.count("rows_0") == 1);
    CHECK(symbols.count("loop_0") == 1);
  }
  CHECK((*codes)[0].file.hash != (*codes)[1].file.hash);
  CHECK((*codes)[2].arch == "compute_90");
  auto ptx = llvm::cantFail(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile((*codes)[2].file.path)));
  CHECK(ptx->getBuffer().contains(".target sm_90"));
  CHECK(ptx->getBuffer().back() == '\0');
}

TEST_CASE("device code: what ptxas or a missing libdevice says is one line", "[cuda]") {
  test::TemporaryFolder folder;
  OwningOpRef<ModuleOp> module = test::parseKernels(test::elementwise("%y = math.exp %x : f32"));
  std::string message;
  ScopedDiagnosticHandler handler(&test::cudaContext(), [&](Diagnostic &diagnostic) { message += diagnostic.str() + "\n"; });
  std::string script = folder.path() + "/ptxas";
  std::ofstream(script) << "#!/bin/sh\necho 'info : line'\necho 'ptxas fatal : Unresolved extern function'\nexit 255\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  cuda::Toolkit toolkit = llvm::cantFail(cuda::findToolkit()), broken = toolkit;
  broken.ptxas = script;
  CHECK(failed(cuda::compileKernels(*module, broken, {cuda::Chip{90}}, folder.path())));
  CHECK(message == "ptxas refused the kernels for sm_90: ptxas fatal : Unresolved extern function\n");
  message.clear();
  toolkit.libdevice = folder.path() + "/missing.bc";
  CHECK(failed(cuda::kernelsToPtx(*module, toolkit, cuda::Chip{90})));
  CHECK_THAT(message, Contains("cannot read " + toolkit.libdevice + ": "));
}

TEST_CASE("device code: a program without kernels has it too", "[cuda]") {
  test::TemporaryFolder folder;
  FailureOr<std::vector<target::DeviceCode>> codes =
      cuda::compileKernels(*test::parseKernels(""), llvm::cantFail(cuda::findToolkit()), {cuda::Chip{90}}, folder.path());
  REQUIRE(succeeded(codes));
  CHECK(codes->size() == 2);
}

} // namespace ashlar::test::code_test
