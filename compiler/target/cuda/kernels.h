// SPDX-License-Identifier: Apache-2.0
//
// Generated kernels to code of NVIDIA chips. docs/cuda.md has the road.

#ifndef ASHLAR_COMPILER_TARGET_CUDA_KERNELS_H
#define ASHLAR_COMPILER_TARGET_CUDA_KERNELS_H

#include "compiler/target/cuda/chip.h"
#include "compiler/target/cuda/toolkit.h"
#include "compiler/target/image_emitter.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::cuda {

// Returns the kernel functions of `module` (those with exec.extent) as PTX for `chip`: each an entry of its name, with the addresses of
// its buffers as parameters. Errors are reported.
mlir::FailureOr<std::string> kernelsToPtx(mlir::ModuleOp module, const Toolkit &toolkit, const Chip &chip);

// Writes machine code of the kernels for each chip, and the PTX of the last one, to files of `folder`. Errors are reported. Assumes that
// the chips ascend.
mlir::FailureOr<std::vector<target::DeviceCode>> compileKernels(mlir::ModuleOp module, const Toolkit &toolkit, llvm::ArrayRef<Chip> chips,
                                                                llvm::StringRef folder);

} // namespace ashlar::cuda

#endif // ASHLAR_COMPILER_TARGET_CUDA_KERNELS_H
