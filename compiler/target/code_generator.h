// SPDX-License-Identifier: Apache-2.0
//
// LLVM's optimiser and code generators, in this process; the common part of all machines.

#ifndef ASHLAR_COMPILER_TARGET_CODE_GENERATOR_H
#define ASHLAR_COMPILER_TARGET_CODE_GENERATOR_H

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

namespace ashlar::target {

// Optimises `module` for speed on `machine`; with `fetchesRows`, loops over rows prefetch (fetch_rows.h).
void optimise(llvm::Module &module, llvm::TargetMachine &machine, bool fetchesRows);

// Writes the code of `module` for `machine`: an object or assembler text.
llvm::Error generateCode(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType kind, llvm::raw_pwrite_stream &out);

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_CODE_GENERATOR_H
