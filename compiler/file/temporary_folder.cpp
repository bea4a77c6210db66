// SPDX-License-Identifier: Apache-2.0
//
// Folders by mkdtemp(): LLVM's functions for unique names read each '%' of a path as a place for a random character.

#include "compiler/file/temporary_folder.h"

#include "compiler/file/cleanup.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <cstdlib>

namespace ashlar::file {

namespace path = llvm::sys::path;

namespace {

llvm::Error cannotCreate(llvm::StringRef parent, std::error_code error) {
  return llvm::createStringError(error, "cannot create a folder for temporary files in " + parent + ": " +
                                            llvm::StringRef(error.message()).lower());
}

// The linker starts elsewhere and takes names that begin with '-' or '@' for something else, so the path becomes absolute.
llvm::Error makeIn(llvm::StringRef parent, std::string &folder) {
  llvm::SmallString<256> absolute(parent);
  if (std::error_code error = llvm::sys::fs::make_absolute(absolute)) {
    return cannotCreate(parent, error);
  }
  std::string pattern = temporaryPattern(absolute);
  SignalHold hold;
  if (mkdtemp(pattern.data()) == nullptr) {
    return cannotCreate(parent, std::error_code(errno, std::generic_category()));
  }
  removeAtSignal(pattern);
  folder = pattern;
  return llvm::Error::success();
}

} // namespace

TemporaryFolder::~TemporaryFolder() {
  if (!folder.empty()) {
    SignalHold hold;
    llvm::sys::fs::remove_directories(folder);
    keepAtSignal(folder);
  }
}

llvm::Error TemporaryFolder::create() {
  llvm::SmallString<128> system;
  path::system_temp_directory(/*erasedOnReboot=*/true, system);
  return makeIn(system, folder);
}

llvm::Error TemporaryFolder::createBeside(llvm::StringRef file) {
  llvm::StringRef parent = path::parent_path(file);
  return makeIn(parent.empty() ? "." : parent, folder);
}

std::string TemporaryFolder::file(llvm::StringRef name) const {
  llvm::SmallString<128> result(folder);
  path::append(result, name);
  return result.str().str();
}

std::string temporaryPattern(llvm::StringRef parent) {
  llvm::SmallString<256> result(parent);
  path::append(result, kTemporaryPrefix + llvm::Twine("XXXXXX"));
  return result.str().str();
}

} // namespace ashlar::file
