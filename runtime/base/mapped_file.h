// SPDX-License-Identifier: Apache-2.0
//
// Files of data, mapped: only touched pages are read.

#ifndef ASHLAR_RUNTIME_BASE_MAPPED_FILE_H
#define ASHLAR_RUNTIME_BASE_MAPPED_FILE_H

#include "runtime/base/status.h"

#include <cstdint>
#include <ctime>
#include <string>

namespace ashlar::rt {

struct MappedRegion;

// A file mapped for reading. Bytes that its file lost before they are touched, because the file was cut or its disk failed, read as zeros,
// and check() fails. Movable; unmaps when destroyed.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  // Maps a regular file that is not empty and has at most `mostBytes` bytes. By one thread at a time.
  static Status open(const std::string &path, MappedFile &file, uint64_t mostBytes = INT64_MAX);

  // Returns the bytes of the file and their number.
  const char *data() const;
  size_t size() const;

  // Fails when the file has another size or, since open(), was written to with other contents in some of 64 blocks, or a page of it was
  // missing. Data read since open() is then invalid. That its time changed alone means nothing: tools keep files from a purge that way.
  Status check() const;

private:
  // Returns a hash of up to 64 blocks, spread over the file.
  uint64_t sampleHash() const;

  std::string path;
  MappedRegion *region = nullptr;
  int descriptor = -1;
  struct timespec written = {}; // for the last time, when it was opened
  uint64_t sample = 0;          // sampleHash() then
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_MAPPED_FILE_H
