// SPDX-License-Identifier: Apache-2.0
//
// The tables of an executable, read without running it.

#ifndef ASHLAR_RUNTIME_SIMULATE_EXECUTABLE_FILE_H
#define ASHLAR_RUNTIME_SIMULATE_EXECUTABLE_FILE_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <string>

namespace ashlar::rt {

// An executable whose segments are mapped as a loader maps them: pointers within it are valid, functions are not called. Pages that nobody
// touches, of constants for instance, are not read. Movable; unmaps when destroyed.
class ExecutableFile {
public:
  ExecutableFile() = default;
  ExecutableFile(ExecutableFile &&other) noexcept { *this = std::move(other); }
  ExecutableFile &operator=(ExecutableFile &&other) noexcept;
  ~ExecutableFile();

  // Maps an output of ashlarc for this machine. Fails for another file, and for one of another version of the ABI. Assumes that nobody
  // changes the file meanwhile.
  static Status open(const std::string &path, ExecutableFile &file);

  // The image. Valid while this object lives.
  const ashlar_rt_image &image() const { return *found; }

private:
  char *base = nullptr; // of the mapping: where address 0 of the file is
  size_t bytes = 0;
  const ashlar_rt_image *found = nullptr;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_EXECUTABLE_FILE_H
