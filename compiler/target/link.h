// SPDX-License-Identifier: Apache-2.0
//
// From objects to an executable, by the linker alone: the entry and the builtin functions of compilers come with the runtime, so a machine
// needs no compiler.

#ifndef ASHLAR_COMPILER_TARGET_LINK_H
#define ASHLAR_COMPILER_TARGET_LINK_H

#include "llvm/Support/Error.h"

#include <string>

namespace ashlar::target {

// The files of a link.
struct LinkFiles {
  std::string linker;            // lld, or another one with the options of GNU ld
  std::string runtime, builtins; // archives
  std::string jpeg, png;         // archives that readers of images use
};

// Finds the files in the installation (compiler/file/installation.h), a linker also on the PATH. The error names the missing one.
llvm::Expected<LinkFiles> findLinkFiles();

// Whether the executable keeps symbols and the debug information of the runtime, most of its bytes.
enum class DebugInfo { Drop, Keep };

// Links one object and the runtime into the executable `output`. `output` appears at the end, whole, or not at all. An error is one line:
// the linker's own first one. Shared libraries, the C and C++ libraries and zlib, are the ones of this process.
llvm::Error linkExecutable(const LinkFiles &files, llvm::StringRef object, llvm::StringRef output, DebugInfo debugInfo = DebugInfo::Drop);

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_LINK_H
