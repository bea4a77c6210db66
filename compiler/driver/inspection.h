// SPDX-License-Identifier: Apache-2.0
//
// ashlarc --inspect and --suggest-job: what a model has, and a job file to start from.

#ifndef ASHLAR_COMPILER_DRIVER_INSPECTION_H
#define ASHLAR_COMPILER_DRIVER_INSPECTION_H

#include "compiler/frontend/inspect.h"

namespace ashlar::driver {

// Returns one paragraph a subject: inputs, parameters, buffers, ops, what is refused.
std::string inspectionText(const frontend::Inspection &model);

// Returns a job that trains the model on .npy files, with comments on these. Fails when the model is refused, or has nothing to train on.
llvm::Expected<std::string> suggestJob(const frontend::Inspection &model);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_INSPECTION_H
