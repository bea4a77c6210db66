// SPDX-License-Identifier: Apache-2.0
//
// The installation: the answers of --version and --print-paths.

#ifndef ASHLAR_COMPILER_DRIVER_INSTALLATION_H
#define ASHLAR_COMPILER_DRIVER_INSTALLATION_H

#include <string>

namespace ashlar::driver {

// Returns ", LLVM 22.1.8, targets cpu, cuda": a target is listed where the build has it.
std::string versionDetails();

// Prints the files that a compilation takes besides its inputs, one "NAME PATH" a line. Returns the exit status: 1, with an error, where a
// file of the cpu target is missing.
int printPaths();

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_INSTALLATION_H
