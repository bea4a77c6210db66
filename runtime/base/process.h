// SPDX-License-Identifier: Apache-2.0
//
// What a process does before anything else.

#ifndef ASHLAR_RUNTIME_BASE_PROCESS_H
#define ASHLAR_RUNTIME_BASE_PROCESS_H

namespace ashlar::rt {

// Prepares the process. Standard streams that are closed lead to /dev/null, so that no file that is opened takes their place. A file
// size limit is an error of the write instead of the end of the process.
void prepareProcess();

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_PROCESS_H
