// SPDX-License-Identifier: Apache-2.0
//
// ashlarc --inspect and --suggest-job: the contents of a model, and a job file to start from.

#ifndef ASHLAR_COMPILER_DRIVER_INSPECTION_H
#define ASHLAR_COMPILER_DRIVER_INSPECTION_H

#include "compiler/driver/compile.h"

#include "llvm/Support/LogicalResult.h"

namespace ashlar::driver {

// Prints the result of --inspect or --suggest-job: one paragraph a subject (inputs, parameters, buffers, ops, refusals), or a job that
// trains the model on .npy files, with comments on these. An error is one line on stderr.
llvm::LogicalResult inspectModel(const command::Options &options);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_INSPECTION_H
