// SPDX-License-Identifier: Apache-2.0
//
// The files that a run reads and writes, of all its options: no output takes the place of an input or of another output.

#ifndef ASHLAR_RUNTIME_RUN_RUN_FILES_H
#define ASHLAR_RUNTIME_RUN_RUN_FILES_H

#include "runtime/base/output_file.h"
#include "runtime/run/checkpoint/loader.h"
#include "runtime/run/checkpoint/output_tensors.h"

#include <vector>

namespace ashlar::rt {

// Returns the files of every kind of run: the executable, the checkpoint or weights, and on rank 0 the trace and the files of tensors,
// which an option names: "--output". Assumes that the loader is open.
FileRoles filesOf(const Session &session, const Loader &loader, const std::vector<OutputTensor> &tensors, const char *option);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_RUN_FILES_H
