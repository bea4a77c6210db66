// SPDX-License-Identifier: Apache-2.0
//
// rt::FileRoles with LLVM's errors.

#ifndef ASHLAR_COMPILER_FILE_FILE_ROLES_H
#define ASHLAR_COMPILER_FILE_FILE_ROLES_H

#include "runtime/abi/file_roles.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace ashlar::file {

// The files of a compilation and their roles.
class FileRoles {
public:
  // Adds a file that is read: addInput("the model", path). Fails when an output was added that is this file.
  llvm::Error addInput(llvm::StringRef role, llvm::StringRef path) {
    roles.addInput(role.str(), path.str());
    return error();
  }

  // Adds a file that is written: addOutput("-o", path). Fails when it is an input or another output.
  llvm::Error addOutput(llvm::StringRef role, llvm::StringRef path) {
    roles.addOutput(role.str(), path.str());
    return error();
  }

private:
  llvm::Error error() const { return roles.fault().empty() ? llvm::Error::success() : llvm::createStringError(roles.fault()); }

  rt::FileRoles roles;
};

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_FILE_ROLES_H
