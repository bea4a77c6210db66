// SPDX-License-Identifier: Apache-2.0
//
// The files that lie beside the running program: PREFIX/bin/PROGRAM, PREFIX/lib/FILE, in an installation and in a build.

#ifndef ASHLAR_COMPILER_FILE_INSTALLATION_H
#define ASHLAR_COMPILER_FILE_INSTALLATION_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace ashlar::file {

// Returns the path of a file of the installation, such as "lib/libashlar_rt.a", whether or not it exists: the prefix is the folder above
// that of the running program, behind links.
std::string installedFile(llvm::StringRef name);

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_INSTALLATION_H
