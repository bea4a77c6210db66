// SPDX-License-Identifier: Apache-2.0
//
// The start and the end of main() in the compiler and its tools.

#ifndef ASHLAR_COMPILER_FILE_PROCESS_H
#define ASHLAR_COMPILER_FILE_PROCESS_H

namespace ashlar::file {

// Prepares the process. Standard streams that are closed lead to /dev/null, so that no file that is opened takes their place. A file
// size limit is an error of the write. Signals clean up. An allocation that fails ends the process with one line.
void prepareProcess();

// Flushes standard output. Returns `status`, or 1, after one line on stderr, when not all could be written.
int finishProcess(int status);

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_PROCESS_H
