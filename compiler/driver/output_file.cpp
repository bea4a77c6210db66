// SPDX-License-Identifier: Apache-2.0
//
// Output by rename, and the folder for intermediate files.

#include "compiler/driver/output_file.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

namespace ashlar::driver {
namespace {

llvm::Error cannotWrite(llvm::StringRef path, std::error_code error) {
  return llvm::createStringError(error, "cannot write " + path + ": " + error.message());
}

} // namespace

PartialFile::~PartialFile() {
  if (!partial.empty()) {
    llvm::sys::fs::remove(partial);
  }
}

llvm::Error PartialFile::create(llvm::StringRef forOutput) {
  llvm::SmallString<256> created;
  int descriptor = -1;
  if (std::error_code error = llvm::sys::fs::createUniqueFile(forOutput + "-%%%%%%", descriptor, created)) {
    return cannotWrite(forOutput, error);
  }
  llvm::sys::Process::SafelyCloseFileDescriptor(descriptor);
  partial = created.str().str();
  output = forOutput.str();
  return llvm::Error::success();
}

llvm::Error PartialFile::commit() {
  if (std::error_code error = llvm::sys::fs::rename(partial, output)) {
    return cannotWrite(output, error);
  }
  partial.clear();
  return llvm::Error::success();
}

llvm::Error writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write) {
  if (path == "-") {
    write(llvm::outs());
    return llvm::Error::success();
  }
  PartialFile partial;
  if (llvm::Error error = partial.create(path)) {
    return error;
  }
  std::error_code error;
  llvm::raw_fd_ostream out(partial.path(), error);
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
  return partial.commit();
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
