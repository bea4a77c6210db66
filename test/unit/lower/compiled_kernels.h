// SPDX-License-Identifier: Apache-2.0
//
// Emits the kernels of a fused module and runs its functions with them: cpu kernels compiled into a shared object, cuda kernels simulated.

#ifndef ASHLAR_TEST_UNIT_LOWER_COMPILED_KERNELS_H
#define ASHLAR_TEST_UNIT_LOWER_COMPILED_KERNELS_H

#include "compiler/target/host_code.h"
#include "dialects/exec/exec.h"
#include "dialects/support/reference_tensor.h"
#include "runtime/abi/ashlar_rt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <random>
#include <string>

namespace ashlar::test {

// Runs the passes up to exec.fusion; every product becomes loops.
void fuse(mlir::ModuleOp module, exec::Target target = exec::Target::Cpu);

// Every fusion is one kernel, except for inserts on the cpu, which the interpreter runs. It is on the cpu called over its extent in
// randomly cut ranges; where a result may overwrite an operand it does, by a coin, if `inPlace`.
class CompiledKernels {
public:
  // Compiles and loads; throws std::runtime_error when that fails. `fused` must outlive this and hold no gemm. `cpu`: for kernels of the
  // cpu.
  CompiledKernels(mlir::ModuleOp fused, std::mt19937_64 &random, bool inPlace = true, exec::Target target = exec::Target::Cpu,
                  target::HostCpu cpu = target::HostCpu::This);
  virtual ~CompiledKernels();

  // Runs function `name` and returns its results.
  std::vector<reference::Tensor> run(llvm::StringRef name, llvm::ArrayRef<reference::Tensor> inputs);

  // A loaded kernel of the cpu target: call run(buffers, 0, extent). The buffers are the fusion's operands, then the results that overwrite
  // none.
  struct Loaded {
    ashlar_rt_kernel_fn run;
    int64_t extent;
  };
  Loaded load(exec::FusionOp fusion);

protected:
  struct Kernel {
    std::string name;
    mlir::func::FuncOp function;
    llvm::SmallVector<int64_t> alias;
    int64_t extent;
  };

  // Runs a kernel on its buffers, one an argument.
  virtual void launch(const Kernel &kernel, llvm::ArrayRef<char *> buffers);

  // Returns the module that holds the kernels as ashlar-plan-memory leaves them.
  mlir::ModuleOp getModule() { return *module; }

private:
  using Bytes = std::vector<char>;

  mlir::ModuleOp fused;
  std::mt19937_64 &random;
  exec::Target target;
  mlir::OwningOpRef<mlir::ModuleOp> module; // of the kernels
  void *library = nullptr;
  llvm::DenseMap<mlir::Operation *, Kernel> kernels;

  void compile(target::HostCpu cpu);
  void runKernel(exec::FusionOp fusion, llvm::DenseMap<mlir::Value, Bytes> &values);
};

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_LOWER_COMPILED_KERNELS_H
