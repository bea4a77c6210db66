// SPDX-License-Identifier: Apache-2.0
//
// --export: the ONNX model that the program was compiled from, with the variables as they are now.

#ifndef ASHLAR_RUNTIME_RUN_CHECKPOINT_EXPORT_MODEL_H
#define ASHLAR_RUNTIME_RUN_CHECKPOINT_EXPORT_MODEL_H

#include "runtime/run/session.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// Finds unwritable outputs before the run.
Status checkExport(const Session &session);

// Returns the files of --export: the model, and where the numbers are not in it, theirs. None without the option.
std::vector<std::string> exportFiles(const Session &session);

// Gathers the variables one after the other and lets rank 0 write the model, and the file of data next to it. Every rank calls it, after a
// barrier; only the status of rank 0 reports errors of files.
Status exportModel(Session &session);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_CHECKPOINT_EXPORT_MODEL_H
