// SPDX-License-Identifier: Apache-2.0
//
// The components of the runtime that a program needs (runtime/abi/components.h).

#ifndef ASHLAR_COMPILER_TARGET_COMPONENTS_H
#define ASHLAR_COMPILER_TARGET_COMPONENTS_H

#include "compiler/target/image_info.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

namespace ashlar::target {

// Adds references to the components that the exec.variants of `program` need, so that the linker takes them out of the archive.
void referToComponents(mlir::ModuleOp program, const ImageInfo &info, llvm::Module &host);

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_COMPONENTS_H
