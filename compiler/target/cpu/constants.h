// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a program's constants, written to a file that the object includes as it is: 100 MB never become IR.

#ifndef ASHLAR_COMPILER_TARGET_CPU_CONSTANTS_H
#define ASHLAR_COMPILER_TARGET_CPU_CONSTANTS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace ashlar::cpu {

// A file of constants.
struct ConstantsFile {
  std::string path;
  uint64_t bytes = 0;
  uint64_t hash = 0; // of the bytes
};

// Writes the exec.constant ops of a module to `path`, each at its offset; gaps are zero. Assumes that offsets ascend, as the memory plan
// leaves them.
llvm::Expected<ConstantsFile> writeConstants(mlir::ModuleOp module, llvm::StringRef path);

} // namespace ashlar::cpu

#endif // ASHLAR_COMPILER_TARGET_CPU_CONSTANTS_H
