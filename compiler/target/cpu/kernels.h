// SPDX-License-Identifier: Apache-2.0
//
// Generated kernels to machine code for the CPU of this machine.

#ifndef ASHLAR_COMPILER_TARGET_CPU_KERNELS_H
#define ASHLAR_COMPILER_TARGET_CPU_KERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace ashlar::cpu {

// Translates the kernel functions of `module` (those with exec.extent) to LLVM IR. Each becomes an external function of its name with the
// signature ashlar_rt_kernel_fn: void(void *const *buffers, int64 begin, int64 end). Returns null after an error was emitted.
std::unique_ptr<llvm::Module> translateKernels(mlir::ModuleOp module, llvm::LLVMContext &context);

// Optimises `module` for the CPU of this machine and writes an object file.
llvm::Error emitObject(llvm::Module &module, llvm::StringRef path);

// Returns which features of runtime/abi/cpu_features.h emitObject() lets the code generator use, separated by commas.
std::string hostCpuFeatures();

} // namespace ashlar::cpu

#endif // ASHLAR_COMPILER_TARGET_CPU_KERNELS_H
