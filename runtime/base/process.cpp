// SPDX-License-Identifier: Apache-2.0
//
// Standard streams, limits and errors.

#include "runtime/base/process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <utility>

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

std::string oneLine(std::string text) {
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return text;
}

// fmt::print() throws when the stream does not take it.
void printError(std::string message) {
  std::fputs(("error: " + oneLine(std::move(message)) + "\n").c_str(), stderr);
  std::fflush(stderr);
}

bool finishOutput() {
  if (std::fflush(stdout) == 0) {
    return true;
  }
  printError(fmt::format("cannot write all of standard output: {}", std::strerror(errno)));
  return false;
}

int runTool(int (*run)(int argc, char **argv), int argc, char **argv, int errorStatus) {
  prepareProcess();
  try {
    const int status = run(argc, argv);
    return finishOutput() ? status : errorStatus;
  } catch (const std::bad_alloc &) {
    printError("out of memory; raise the limit of the process (ulimit -v)");
  } catch (const std::exception &error) {
    printError(error.what());
  }
  return errorStatus;
}

} // namespace ashlar::rt
