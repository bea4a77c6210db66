// SPDX-License-Identifier: Apache-2.0
//
// Folders for what a run writes. Several ranks may make the same one at once.

#include "runtime/base/directories.h"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

namespace ashlar::rt {

Status makeDirectories(const std::string &path) {
  for (size_t slash = 1; slash != std::string::npos; ++slash) {
    slash = path.find('/', slash);
    std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      return unavailable("cannot make the directory {}: {}", part, std::strerror(errno));
    }
    if (slash == std::string::npos) {
      break;
    }
  }
  return Status();
}

} // namespace ashlar::rt
