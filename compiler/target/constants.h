// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a program's constants, written to a file for the object to take in.

#ifndef ASHLAR_COMPILER_TARGET_CONSTANTS_H
#define ASHLAR_COMPILER_TARGET_CONSTANTS_H

#include "compiler/target/included_file.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace ashlar::target {

// Writes the exec.constant ops of a module to `path`, each at its offset; gaps are zero. Assumes that offsets ascend, as the memory plan
// leaves them.
llvm::Expected<IncludedFile> writeConstants(mlir::ModuleOp module, llvm::StringRef path);

// Writes bytes to a file to be included.
llvm::Expected<IncludedFile> writeBytes(llvm::StringRef bytes, llvm::StringRef path);

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_CONSTANTS_H
