// SPDX-License-Identifier: Apache-2.0
//
// Where the running program is.

#include "compiler/file/installation.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace ashlar::file {

std::string installedFile(llvm::StringRef name) {
  static int anchor; // an address in this program
  const std::string program = llvm::sys::fs::getMainExecutable(nullptr, &anchor);
  llvm::SmallString<256> path(llvm::sys::path::parent_path(llvm::sys::path::parent_path(program)));
  llvm::sys::path::append(path, name);
  return path.str().str();
}

} // namespace ashlar::file
