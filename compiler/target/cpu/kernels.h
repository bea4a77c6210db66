// SPDX-License-Identifier: Apache-2.0
//
// Generated kernels to LLVM IR for a CPU.

#ifndef ASHLAR_COMPILER_TARGET_CPU_KERNELS_H
#define ASHLAR_COMPILER_TARGET_CPU_KERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

#include <memory>

namespace ashlar::cpu {

// Translates the kernel functions of `module` (those with exec.extent) to LLVM IR. Each becomes an external function of its name with the
// signature ashlar_rt_kernel_fn: void(void *const *buffers, int64 begin, int64 end), or another name of one whose code is equal. Returns
// null after an error was emitted.
std::unique_ptr<llvm::Module> translateKernels(mlir::ModuleOp module, llvm::LLVMContext &context);

} // namespace ashlar::cpu

#endif // ASHLAR_COMPILER_TARGET_CPU_KERNELS_H
