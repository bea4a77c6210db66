// SPDX-License-Identifier: Apache-2.0
//
// The start of a process, before anything else, and its last output.

#ifndef ASHLAR_RUNTIME_BASE_PROCESS_H
#define ASHLAR_RUNTIME_BASE_PROCESS_H

#include <string>

namespace ashlar::rt {

// Prepares the process. Standard streams that are closed lead to /dev/null, so that no file that is opened takes their place. A file
// size limit is an error of the write instead of the end of the process.
void prepareProcess();

// Returns a text as one line, whatever file names in it hold: with a question mark for each control character.
std::string oneLine(std::string text);

// Prints "error: " and the message as one line on standard error.
void printError(std::string message);

// Flushes standard output. Returns false, after an error line, when not all could be written.
bool finishOutput();

// Runs a tool, and returns its exit status: `errorStatus` after an exception, which becomes one line, and where the output cannot be
// written.
int runTool(int (*run)(int argc, char **argv), int argc, char **argv, int errorStatus);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_PROCESS_H
