// SPDX-License-Identifier: Apache-2.0
//
// Files compared by device and inode.

#include "compiler/file/file_roles.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace ashlar::file {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

llvm::Error FileRoles::addInput(llvm::StringRef role, llvm::StringRef path) {
  return add(role, path, /*isOutput=*/false);
}

llvm::Error FileRoles::addOutput(llvm::StringRef role, llvm::StringRef path) {
  return path == "-" ? llvm::Error::success() : add(role, path, /*isOutput=*/true);
}

llvm::Error FileRoles::add(llvm::StringRef role, llvm::StringRef file, bool isOutput) {
  if (file.empty()) {
    return llvm::Error::success();
  }
  Entry entry{role.str(), file.str(), isOutput, /*exists=*/true, {}};
  fs::file_status status;
  if (fs::status(file, status)) {
    entry.exists = false;
    llvm::StringRef folder = path::parent_path(file);
    if (fs::status(folder.empty() ? "." : folder, status)) {
      return llvm::Error::success(); // whoever opens it will say so
    }
  }
  if (isOutput && entry.exists && !fs::is_regular_file(status)) {
    return llvm::Error::success(); // a device takes several outputs
  }
  entry.identity = status.getUniqueID();
  for (const Entry &other : entries) {
    bool isSame = other.exists == entry.exists && other.identity == entry.identity &&
                  (entry.exists || path::filename(other.path) == path::filename(file));
    if (!isSame || (!isOutput && !other.isOutput)) {
      continue;
    }
    if (isOutput && other.isOutput) {
      return llvm::createStringError(other.role + " and " + role + " both name " + file + "; give each a file of its own");
    }
    const Entry &output = isOutput ? entry : other, &input = isOutput ? other : entry;
    return llvm::createStringError(output.role + " names " + output.path + ", which is " + input.role +
                                   (input.path == output.path ? "" : " " + input.path) + "; name another file");
  }
  entries.push_back(std::move(entry));
  return llvm::Error::success();
}

} // namespace ashlar::file
