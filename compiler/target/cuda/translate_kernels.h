// SPDX-License-Identifier: Apache-2.0
//
// Generated kernels to LLVM IR for NVIDIA chips.

#ifndef ASHLAR_COMPILER_TARGET_CUDA_TRANSLATE_KERNELS_H
#define ASHLAR_COMPILER_TARGET_CUDA_TRANSLATE_KERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

#include <memory>

namespace ashlar::cuda {

// Translates the kernel functions of `module` (those with exec.extent, in the form docs/cuda.md describes) to LLVM IR that calls libdevice.
// Returns null after an error was emitted.
std::unique_ptr<llvm::Module> translateKernels(mlir::ModuleOp module, llvm::LLVMContext &context);

} // namespace ashlar::cuda

#endif // ASHLAR_COMPILER_TARGET_CUDA_TRANSLATE_KERNELS_H
