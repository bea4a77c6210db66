// SPDX-License-Identifier: Apache-2.0
//
// Model and job in, executable out: frontend -> pipelines -> target -> link.

#ifndef ASHLAR_COMPILER_DRIVER_COMPILE_H
#define ASHLAR_COMPILER_DRIVER_COMPILE_H

#include "compiler/command/options.h"

namespace ashlar::driver {

// Compiles. Every error is one line on stderr, "error: ..."; the output then stays as it was. Returns the exit status.
int compile(const command::Options &options);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_COMPILE_H
