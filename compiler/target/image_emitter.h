// SPDX-License-Identifier: Apache-2.0
//
// Writes the image of a program, the tables of runtime/abi/ashlar_rt.h, as constants of an LLVM module, and a main() that hands it to the
// runtime.

#ifndef ASHLAR_COMPILER_TARGET_IMAGE_EMITTER_H
#define ASHLAR_COMPILER_TARGET_IMAGE_EMITTER_H

#include "compiler/target/image_info.h"
#include "compiler/target/included_file.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

namespace ashlar::target {

// Kernels for one kind of chip; `arch` and the kind of the bytes: ashlar_rt_device_code.
struct DeviceCode {
  std::string arch;
  IncludedFile file;
};

// Adds to `host` the image of the exec.variants of `program`, in their order, and main(). Without device codes the kernels must already be
// functions of `host`, with the signature of ashlar_rt_kernel_fn; with some, they must be entries of each. The object takes in the files
// when it is emitted: they must exist until then.
llvm::Error emitImage(mlir::ModuleOp program, const ImageInfo &info, const IncludedFile &constants, llvm::Module &host,
                      llvm::ArrayRef<DeviceCode> deviceCodes = {});

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_IMAGE_EMITTER_H
