// SPDX-License-Identifier: Apache-2.0
//
// The kernels of a module: fusions that do the same on the same types share one, so a net of 100 equal layers has the code of one.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_KERNEL_POOL_H
#define ASHLAR_PASSES_LOWER_KERNELS_KERNEL_POOL_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace ashlar::lower {

// Emits kernels on demand. Two fusions share a kernel when their regions are equal (locations aside), the types agree and the same results
// overwrite the same operands. The fusions must stay alive as long as the pool is asked.
class KernelPool {
public:
  // Kernels are added to `module`; their names start with `prefix`: "<prefix>rows_3".
  KernelPool(mlir::ModuleOp module, llvm::StringRef prefix, exec::Target target) : symbols(module), prefix(prefix), target(target) {}

  // Returns the kernel of `fusion`, whose result r overwrites operand alias[r] unless that is -1. Fails with an error at the fusion.
  mlir::FailureOr<mlir::func::FuncOp> kernelFor(exec::FusionOp fusion, llvm::ArrayRef<int64_t> alias);

private:
  struct Entry {
    exec::FusionOp fusion;
    llvm::SmallVector<int64_t> alias;
    mlir::func::FuncOp kernel;
  };

  mlir::SymbolTable symbols;
  std::string prefix;
  exec::Target target;
  unsigned count = 0;
  llvm::DenseMap<size_t, llvm::SmallVector<Entry, 1>> entries; // by hash
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_KERNEL_POOL_H
