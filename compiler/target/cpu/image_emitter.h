// SPDX-License-Identifier: Apache-2.0
//
// Writes the image of a program, the tables of runtime/abi/ashlar_rt.h, as constants of an LLVM module, and a main() that hands it to the
// runtime.

#ifndef ASHLAR_COMPILER_TARGET_CPU_IMAGE_EMITTER_H
#define ASHLAR_COMPILER_TARGET_CPU_IMAGE_EMITTER_H

#include "compiler/target/cpu/constants.h"
#include "compiler/target/image_info.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

namespace ashlar::cpu {

// Adds to `target` the image of the exec.variants of `program`, in their order, and main(). The kernels must already be functions of
// `target`, with the signature of ashlar_rt_kernel_fn. The object takes in `constants` when it is emitted: the file must exist until then.
llvm::Error emitImage(mlir::ModuleOp program, const target::ImageInfo &info, const ConstantsFile &constants, llvm::Module &target);

} // namespace ashlar::cpu

#endif // ASHLAR_COMPILER_TARGET_CPU_IMAGE_EMITTER_H
