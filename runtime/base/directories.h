// SPDX-License-Identifier: Apache-2.0
//
// Folders for the output of a run.

#ifndef ASHLAR_RUNTIME_BASE_DIRECTORIES_H
#define ASHLAR_RUNTIME_BASE_DIRECTORIES_H

#include "runtime/base/status.h"

#include <string>

namespace ashlar::rt {

// Makes the directory and those above it. It may be there already.
Status makeDirectories(const std::string &path);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_DIRECTORIES_H
