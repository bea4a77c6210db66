// SPDX-License-Identifier: Apache-2.0
//
// Folders for files that only this run needs. Only the user may enter them, so names in them can be predictable.

#ifndef ASHLAR_COMPILER_FILE_TEMPORARY_FOLDER_H
#define ASHLAR_COMPILER_FILE_TEMPORARY_FOLDER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace ashlar::file {

// The prefix of every temporary name; six random characters follow.
inline constexpr char kTemporaryPrefix[] = ".ashlar-";

// A fresh folder, removed with all it holds at the end of the scope, and when a signal ends the process. It holds files only.
class TemporaryFolder {
public:
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  ~TemporaryFolder();

  // Creates the folder where the system keeps temporary files.
  llvm::Error create();

  // Creates the folder beside a file, on the same disk.
  llvm::Error createBeside(llvm::StringRef path);

  // Returns its absolute path.
  const std::string &path() const { return folder; }

  // Returns the path of a file in it.
  std::string file(llvm::StringRef name) const;

private:
  std::string folder; // empty: there is none
};

// Returns `parent`/.ashlar-XXXXXX, the pattern of mkostemp() and mkdtemp(); an empty parent is the current folder.
std::string temporaryPattern(llvm::StringRef parent);

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_TEMPORARY_FOLDER_H
