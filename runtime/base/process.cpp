// SPDX-License-Identifier: Apache-2.0
//
// Standard streams and limits.

#include "runtime/base/process.h"

#include <cerrno>
#include <csignal>
#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace ashlar::rt {

void prepareProcess() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      open("/dev/null", O_RDWR); // takes the lowest number that is free: this one
    }
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace ashlar::rt
