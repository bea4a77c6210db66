// SPDX-License-Identifier: Apache-2.0
//
// The one way in which the compiler and the runtime open a file for reading. Jobs, models, checkpoints and data come from others: a device
// file never ends, a pipe may never begin, and opening either can wait or act. So only a regular file of a bounded size is opened.

#ifndef ASHLAR_RUNTIME_ABI_REGULAR_FILE_H
#define ASHLAR_RUNTIME_ABI_REGULAR_FILE_H

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {

// A file that was opened, or why it was not. The caller closes the descriptor.
struct OpenedFile {
  int descriptor = -1; // -1: not opened
  uint64_t bytes = 0;  // 0 of a pipe
  bool isPipe = false;
  std::string fault; // "No such file or directory", "it is not a regular file"
};

// Opens a regular file of at most `mostBytes` bytes for reading; with `takesPipes` also a pipe, whose reads do not wait. Never waits.
inline OpenedFile openRegularFile(const std::string &path, uint64_t mostBytes, bool takesPipes = false) {
  OpenedFile file;
  struct stat info = {};
  const auto isTaken = [&] { return S_ISREG(info.st_mode) || (takesPipes && S_ISFIFO(info.st_mode)); };
  if (stat(path.c_str(), &info) != 0) { // before it is opened, which can rewind a tape
    file.fault = std::strerror(errno);
    return file;
  }
  file.descriptor = isTaken() ? open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
  if (isTaken() && (file.descriptor < 0 || fstat(file.descriptor, &info) != 0)) {
    file.fault = std::strerror(errno);
  } else if (!isTaken()) {
    file.fault = "it is not a regular file";
  } else if (static_cast<uint64_t>(info.st_size) > mostBytes) {
    file.fault = "it has " + std::to_string(info.st_size) + " bytes, and " + std::to_string(mostBytes) + " are the most that are read";
  }
  file.isPipe = S_ISFIFO(info.st_mode);
  file.bytes = file.isPipe ? 0 : static_cast<uint64_t>(info.st_size);
  if (!file.fault.empty() && file.descriptor >= 0) {
    close(file.descriptor);
    file.descriptor = -1;
  }
  return file;
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_ABI_REGULAR_FILE_H
