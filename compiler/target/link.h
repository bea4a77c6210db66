// SPDX-License-Identifier: Apache-2.0
//
// From objects to an executable, by the C++ compiler driver of the machine, which knows the start files and library folders.

#ifndef ASHLAR_COMPILER_TARGET_LINK_H
#define ASHLAR_COMPILER_TARGET_LINK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace ashlar::target {

// Returns the runtime archive: ../lib/libashlar_rt.a beside the running program, else the one of this build. Fails naming both when there
// is none.
llvm::Expected<std::string> findRuntimeArchive(llvm::StringRef programPath);

// Whether the executable keeps the debug information of the runtime, two thirds of its bytes.
enum class DebugInfo { Drop, Keep };

// Links one object and the runtime into the executable `output`. `output` appears at the end, whole, or not at all. An error is one line:
// the linker's own first one, or that there is no linker.
llvm::Error linkExecutable(llvm::StringRef object, llvm::StringRef runtimeArchive, llvm::StringRef output,
                           DebugInfo debugInfo = DebugInfo::Drop);

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_LINK_H
