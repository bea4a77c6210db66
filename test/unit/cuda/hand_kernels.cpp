// SPDX-License-Identifier: Apache-2.0
//
// MLIR text, put together.

#include "test/unit/cuda/hand_kernels.h"

#include "compiler/target/cuda/kernels.h"
#include "dialects/exec/exec.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

using namespace mlir;

namespace ashlar::test {

MLIRContext &cudaContext() {
  static MLIRContext *result = [] {
    auto *made = new MLIRContext(MLIRContext::Threading::DISABLED);
    made->loadDialect<arith::ArithDialect, exec::ExecDialect, func::FuncDialect, gpu::GPUDialect, math::MathDialect, memref::MemRefDialect,
                      scf::SCFDialect, vector::VectorDialect>();
    return made;
  }();
  return *result;
}

OwningOpRef<ModuleOp> parseKernels(const std::string &text) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &cudaContext());
  REQUIRE(module);
  return module;
}

std::string ptxOf(const std::string &text, unsigned capability) {
  FailureOr<std::string> ptx = cuda::kernelsToPtx(*parseKernels(text), llvm::cantFail(cuda::findToolkit()), cuda::Chip{capability});
  REQUIRE(succeeded(ptx));
  return *ptx;
}

std::string elementwise(const std::string &body, const std::string &type) {
  std::string kernel = R"(
    func.func private @loop_0(%a: memref<4096xTYPE>, %b: memref<4096xTYPE>) attributes {exec.extent = 8 : i64, exec.grain = 128 : i64} {
      %c128 = arith.constant 128 : index
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %first = arith.muli %block, %c128 : index
      %number = arith.addi %first, %thread : index
      %c4 = arith.constant 4 : index
      %base = arith.muli %number, %c4 : index
)";
  for (int i : {0, 1, 2, 3}) {
    std::string n = std::to_string(i);
    kernel += "%i" + n + " = arith.constant " + n + " : index\n%p" + n + " = arith.addi %base, %i" + n + " : index\n%x" + n +
              " = memref.load %a[%p" + n + "] : memref<4096xTYPE>\n";
  }
  for (int i : {0, 1, 2, 3}) {
    std::string n = std::to_string(i), line = body;
    for (std::string name : {"%x", "%y", "%t", "%u", "%v"}) {
      for (size_t at = 0; (at = line.find(name, at)) != std::string::npos; at += name.size()) {
        line.insert(at + name.size(), n);
      }
    }
    kernel += line + "\n";
  }
  for (int i : {0, 1, 2, 3}) {
    std::string n = std::to_string(i);
    kernel += "memref.store %y" + n + ", %b[%p" + n + "] : memref<4096xTYPE>\n";
  }
  kernel += "return\n}\n";
  for (size_t at = 0; (at = kernel.find("TYPE", at)) != std::string::npos;) {
    kernel.replace(at, 4, type);
  }
  return kernel;
}

std::string rowSums(bool wide) {
  std::string text = R"(
    func.func private @rows_0(%x: memref<8192xf64>, %sums: memref<64xf64>, %coordinate: memref<1xi64>)
        attributes {exec.extent = 64 : i64, exec.grain = 128 : i64} {
      %shared = memref.alloca() {alignment = 16 : i64} : memref<4xf64, #gpu.address_space<workgroup>>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c32 = arith.constant 32 : index
      %c128 = arith.constant 128 : index
      %zero = arith.constant 0.0 : f64
      %width = arith.constant 32 : i32
      %row = gpu.block_id x
      %thread = gpu.thread_id x
      %base = arith.muli %row, %c128 : index
      %place = arith.addi %base, %thread : index
      %value0 = memref.load %x[%place] : memref<8192xf64>
)";
  if (wide) { // a constant that needs more than 32 bits
    text += "%far = arith.constant 4294967296 : index\n%never = arith.cmpi eq, %row, %far : index\n"
            "scf.if %never {\nmemref.store %zero, %sums[%row] : memref<64xf64>\n}\n";
  }
  int step = 0;
  for (int distance = 16; distance > 0; distance /= 2, ++step) {
    std::string from = std::to_string(step), to = std::to_string(step + 1);
    text += "%d" + from + " = arith.constant " + std::to_string(distance) + " : i32\n%other" + from + ", %valid" + from +
            " = gpu.shuffle xor %value" + from + ", %d" + from + ", %width : f64\n%value" + to + " = arith.addf %value" + from +
            ", %other" + from + " : f64\n";
  }
  return text + R"(
      %warp = arith.divui %thread, %c32 : index
      memref.store %value5, %shared[%warp] : memref<4xf64, #gpu.address_space<workgroup>>
      gpu.barrier
      %total = scf.for %i = %c0 to %c4 step %c1 iter_args(%sum = %zero) -> f64 {
        %part = memref.load %shared[%i] : memref<4xf64, #gpu.address_space<workgroup>>
        %next = arith.addf %sum, %part : f64
        scf.yield %next : f64
      }
      %own = memref.load %coordinate[%c0] : memref<1xi64>
      %number = arith.sitofp %own : i64 to f64
      %result = arith.addf %total, %number : f64
      memref.store %result, %sums[%row] : memref<64xf64>
      return
    }
)";
}

} // namespace ashlar::test
