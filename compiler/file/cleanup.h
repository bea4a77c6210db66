// SPDX-License-Identifier: Apache-2.0
//
// Cleanup on signals: temporary files and folders, and programs that still write into them. They are on a list from the moment they exist;
// a signal that ends the process removes the entries of the list, and so does a crash of the compiler. Only for the thread that compiles.

#ifndef ASHLAR_COMPILER_FILE_CLEANUP_H
#define ASHLAR_COMPILER_FILE_CLEANUP_H

#include <string>

#include <signal.h>
#include <sys/types.h>

namespace ashlar::file {

// Holds back the signals that end the process. Between the making of something and its place on the list no signal may arrive.
class SignalHold {
public:
  SignalHold();
  ~SignalHold();
  SignalHold(const SignalHold &) = delete;
  SignalHold &operator=(const SignalHold &) = delete;

private:
  sigset_t before;
};

// Puts a file, or a folder without folders in it, on the list. `path` is absolute, or relative to a folder that the process does not leave.
// Assumes a SignalHold that began before it was made.
void removeAtSignal(const std::string &path);

// Takes a path off the list: it is gone, or has its final name. Assumes a SignalHold that began before that.
void keepAtSignal(const std::string &path);

// Puts a child process on the list, which ends with this one. It is not started under a SignalHold, which it would inherit.
void endAtSignal(pid_t child);

// Takes a child process off the list.
void forgetProcess(pid_t child);

// Removes everything on the list now. Async-signal-safe; entries of other processes stay.
void cleanUp();

// Has the signals that end a process, by will or by a crash, clean up first. One that is ignored stays so.
void cleanUpAtSignals();

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_CLEANUP_H
