// SPDX-License-Identifier: Apache-2.0
//
// Output by rename, and the folder for intermediate files.

#include "compiler/driver/output_file.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"

namespace ashlar::driver {
namespace {

llvm::Error cannotWrite(llvm::StringRef path, std::error_code error) {
  return llvm::createStringError(error, "cannot write " + path + ": " + error.message());
}

} // namespace

llvm::Error writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write) {
  if (path == "-") {
    write(llvm::outs());
    return llvm::Error::success();
  }
  std::string partial = (path + ".tmp").str();
  llvm::FileRemover removePartial(partial);
  std::error_code error;
  llvm::raw_fd_ostream out(partial, error);
  if (error) {
    return cannotWrite(path, error);
  }
  write(out);
  out.close();
  if (out.has_error()) {
    error = out.error();
    out.clear_error();
    return cannotWrite(path, error);
  }
  error = llvm::sys::fs::rename(partial, path);
  return error ? cannotWrite(path, error) : llvm::Error::success();
}

llvm::Error checkOutput(llvm::StringRef path) {
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (path == "-" || path.empty()) {
    return llvm::Error::success();
  }
  if (!folder.empty() && !llvm::sys::fs::is_directory(folder)) {
    return llvm::createStringError("cannot write " + path + ": " + folder + " is not a folder");
  }
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path)) {
    return llvm::createStringError("cannot write " + path + ": it is there and not a regular file");
  }
  return llvm::Error::success();
}

ScratchFolder::~ScratchFolder() {
  if (!folder.empty()) {
    llvm::sys::fs::remove_directories(folder);
  }
}

llvm::Error ScratchFolder::create() {
  llvm::SmallString<128> path;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("ashlarc", path)) {
    return llvm::createStringError(error, "cannot create a folder for temporary files: " + error.message());
  }
  folder = path.str().str();
  return llvm::Error::success();
}

std::string ScratchFolder::file(llvm::StringRef name) const {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

} // namespace ashlar::driver
