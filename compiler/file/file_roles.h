// SPDX-License-Identifier: Apache-2.0
//
// Which files a run reads and which it writes. An output that is also an input, or another output, would destroy it.

#ifndef ASHLAR_COMPILER_FILE_FILE_ROLES_H
#define ASHLAR_COMPILER_FILE_FILE_ROLES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem/UniqueID.h"

#include <string>
#include <vector>

namespace ashlar::file {

// The files of a run and their roles. Two paths name one file when they lead to the same inode, or to the same name in the same folder:
// however they are spelled, through links of either kind too.
class FileRoles {
public:
  // Remembers a file that is read: addInput("the model", path). "" is none. Fails when an output was declared to be that file.
  llvm::Error addInput(llvm::StringRef role, llvm::StringRef path);

  // Declares a file that is to be written: addOutput("-o", path). "" and "-" are none. Fails, naming both roles, when it is an input or
  // another output.
  llvm::Error addOutput(llvm::StringRef role, llvm::StringRef path);

private:
  struct Entry {
    std::string role, path;
    bool isOutput, exists;
    llvm::sys::fs::UniqueID identity; // of the file, or of its folder when it does not exist
  };

  llvm::Error add(llvm::StringRef role, llvm::StringRef path, bool isOutput);

  std::vector<Entry> entries;
};

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_FILE_ROLES_H
