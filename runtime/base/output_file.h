// SPDX-License-Identifier: Apache-2.0
//
// The one way in which the runtime writes files. A file is written under an unpredictable name, in the folder of its place, and then
// renamed: another user's file or link at the place is neither followed nor written to. The permissions of the new file follow from the
// umask. A signal that ends the process removes files that have no final name yet.

#ifndef ASHLAR_RUNTIME_BASE_OUTPUT_FILE_H
#define ASHLAR_RUNTIME_BASE_OUTPUT_FILE_H

#include "runtime/abi/file_roles.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ashlar::rt {

struct PendingOutput;

// Fails with the conflict of the files of a run.
Status checkFiles(const FileRoles &files);

// Fails when OutputFile::create() and commit() at this place would: something other than a regular file is there, or its folder is not
// there or takes no files. For outputs at the end of a run, which then fails at its start.
Status checkOutput(const std::string &path);

// Removes files that are being written and have no name yet. For code that ends the process without destroying its objects; any thread or
// signal handler may call it.
void removePendingOutputs();

// A file that is being written. Movable. Without commit() it is removed.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

  // Begins a file that is there as a whole, after commit(), or not at all. Refuses a place where something other than a regular file is: it
  // would be replaced, or, when it is a symbolic link, lead where nobody can know.
  Status create(const std::string &path);

  // Begins a file that is there from the start and grows, a log. With `keeps` it begins with the lines of the file at its place that this
  // returns true for. A pipe or a device file is written to as it is; a symbolic link is refused.
  using Keeps = std::function<bool(std::string_view line)>;
  Status createLog(const std::string &path, const Keeps &keeps = nullptr);

  // Whether a file was begun and not closed.
  bool isOpen() const { return descriptor >= 0; }

  // Appends bytes, all or none unless to a pipe. After an error the first one is remembered, and nothing more is written. A pipe without a
  // reader is an error, not a signal.
  Status write(const void *data, size_t bytes);

  // Waits until all that was written is on disk.
  Status sync();

  // Ends the file; fails if not all of it was written. A second call does nothing.
  Status close();

  // Closes the file and gives it its name.
  Status commit();

private:
  Status begin(const std::string &path);
  Status rename();
  // Writes the lines of the file at this place that are kept.
  Status copyLines(const Keeps &keeps);

  std::string path;
  PendingOutput *pending = nullptr; // null: no temporary name to remove
  int descriptor = -1;
  uint64_t written = 0;
  int error = 0; // errno of the first write that failed
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_OUTPUT_FILE_H
