// SPDX-License-Identifier: Apache-2.0
//
// A file that is there whole or not at all.

#ifndef ASHLAR_COMPILER_DRIVER_OUTPUT_FILE_H
#define ASHLAR_COMPILER_DRIVER_OUTPUT_FILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace ashlar::driver {

// A fresh file beside an output, on the same disk, that takes the output's place when it is whole. Without commit() it is removed.
class PartialFile {
public:
  PartialFile() = default;
  PartialFile(const PartialFile &) = delete;
  PartialFile &operator=(const PartialFile &) = delete;
  ~PartialFile();

  // Creates the file; no file that exists is touched.
  llvm::Error create(llvm::StringRef output);

  // Returns the path of the file.
  const std::string &path() const { return partial; }

  // Renames the file to the output.
  llvm::Error commit();

private:
  std::string partial, output; // partial is empty: there is no file to remove
};

// Writes `path` by way of a PartialFile. "-" is stdout.
llvm::Error writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);

// Fails when `path` cannot become the output, so that a long compilation does not end there: its folder does not exist, or it is something
// that a file must not replace, such as a folder or a device.
llvm::Error checkOutput(llvm::StringRef path);

// A fresh folder for intermediate files, removed with all it holds at the end.
class ScratchFolder {
public:
  ScratchFolder() = default;
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;
  ~ScratchFolder();

  // Creates the folder where the system keeps temporary files.
  llvm::Error create();

  // Returns its path.
  const std::string &path() const { return folder; }

  // Returns the path of a file in it.
  std::string file(llvm::StringRef name) const;

private:
  std::string folder;
};

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_OUTPUT_FILE_H
