// SPDX-License-Identifier: Apache-2.0
//
// Which ranks see which folder of checkpoints: a path may lead to a shared disk, or to another one on each host, and is the same text.

#ifndef ASHLAR_RUNTIME_RUN_CHECKPOINT_FOLDER_SIGHT_H
#define ASHLAR_RUNTIME_RUN_CHECKPOINT_FOLDER_SIGHT_H

#include "runtime/comm/communicator.h"

#include <string>

namespace ashlar::rt {

// Whether a rank is the one that takes care of its folder: rank 0, or with a folder a host the first one of the host.
bool leadsFolder(const Communicator &communicator, bool isLocal);

// Checks who sees the folder, by empty files that the ranks that lead make in it and remove: every rank is to see rank 0's, or, with a
// folder a host, its own host's and no other. Every rank calls it, once the folders are there; a failure is shared, and names a rank.
Status checkFolderSight(const std::string &directory, bool isLocal, Communicator &communicator);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_CHECKPOINT_FOLDER_SIGHT_H
