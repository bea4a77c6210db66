// SPDX-License-Identifier: Apache-2.0
//
// Standard streams, limits, signals, memory.

#include "compiler/file/process.h"

#include "compiler/file/cleanup.h"
#include "compiler/file/output_file.h"

#include "llvm/Support/ErrorHandling.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <iostream>
#include <malloc.h>
#include <new>

#include <fcntl.h>
#include <unistd.h>

namespace ashlar::file {
namespace {

void openStandardStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      open("/dev/null", O_RDWR); // takes the lowest number that is free: this one
    }
  }
}

// Ends the process, allocating nothing.
[[noreturn]] void endOutOfMemory() {
  constexpr char kMessage[] = "error: out of memory; raise the limit of the process (ulimit -v) or compile where more memory is free\n";
  cleanUp();
  _exit(write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0 ? 2 : 1);
}

} // namespace

namespace {

// Keeps memory that is freed: a large model is copied and rewritten often, and asking for its pages again takes 5 % of the time of a plan.
void keepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

} // namespace

void prepareProcess() {
  keepFreedMemory();
  openStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);
  cleanUpAtSignals();
  std::set_new_handler(endOutOfMemory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { endOutOfMemory(); });
}

int finishProcess(int status) {
  std::error_code error;
  if (!std::cout.flush()) {
    error = std::error_code(errno, std::generic_category());
  }
  llvm::outs().flush();
  if (llvm::outs().has_error()) { // its destructor would end the process with a line of LLVM's
    error = llvm::outs().error();
    llvm::outs().clear_error();
  }
  if (error) {
    llvm::errs() << "error: " << llvm::toString(cannotWrite("-", error)) << "\n";
    status = 1;
  }
  llvm::errs().clear_error();
  return status;
}

} // namespace ashlar::file
