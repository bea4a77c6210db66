// SPDX-License-Identifier: Apache-2.0
//
// Output by mkostemp() and rename(). The file is written by its descriptor: its name may lie in a folder where others can rename files.

#include "compiler/file/output_file.h"

#include "compiler/file/cleanup.h"
#include "compiler/file/temporary_folder.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::file {
namespace {

std::error_code lastError() {
  return std::error_code(errno, std::generic_category());
}

// Whether `path` is something that takes what is written to it and stays what it is.
bool isStreamLike(llvm::StringRef path) {
  struct stat info = {};
  return lstat(path.str().c_str(), &info) == 0 && (S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode));
}

// A fresh file beside an output. Without commit() it is removed.
class PartialFile {
public:
  PartialFile() = default;
  PartialFile(const PartialFile &) = delete;
  PartialFile &operator=(const PartialFile &) = delete;
  ~PartialFile() {
    if (!partial.empty()) {
      SignalHold hold;
      unlink(partial.c_str());
      keepAtSignal(partial);
    }
  }

  // Creates the file and returns its descriptor.
  llvm::Expected<int> create(llvm::StringRef output) {
    std::string pattern = temporaryPattern(llvm::sys::path::parent_path(output));
    SignalHold hold;
    int descriptor = mkostemp(pattern.data(), O_CLOEXEC);
    if (descriptor < 0) {
      return cannotWrite(output, lastError());
    }
    removeAtSignal(pattern);
    partial = pattern;
    const mode_t mask = umask(0); // mkostemp() gives the owner alone access; the output is an ordinary file
    umask(mask);
    fchmod(descriptor, 0666 & ~mask);
    return descriptor;
  }

  // Gives the file its name.
  llvm::Error commit(llvm::StringRef output) {
    SignalHold hold;
    if (llvm::Error error = renameOutput(partial, output)) {
      return error;
    }
    keepAtSignal(partial);
    partial.clear();
    return llvm::Error::success();
  }

private:
  std::string partial; // empty: there is no file to remove
};

// Runs `write` and returns its error, or that of the stream. A stream that is destroyed with an error ends the process.
llvm::Error writeTo(llvm::raw_fd_ostream &out, llvm::StringRef path, llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write,
                    bool close) {
  llvm::Error failed = write(out);
  close ? out.close() : out.flush();
  std::error_code error = out.error();
  out.clear_error();
  if (failed || !error) {
    return failed;
  }
  llvm::consumeError(std::move(failed));
  return cannotWrite(path, error);
}

} // namespace

llvm::Error cannotWrite(llvm::StringRef path, std::error_code error) {
  return llvm::createStringError(error, "cannot write " + (path == "-" ? "standard output" : path) + ": " +
                                            llvm::StringRef(error.message()).lower());
}

llvm::Error tryWriteOutput(llvm::StringRef path, llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write) {
  if (path == "-") {
    return writeTo(llvm::outs(), path, write, /*close=*/false);
  }
  if (llvm::Error error = checkOutput(path)) {
    return error;
  }
  if (isStreamLike(path)) {
    int descriptor = open(path.str().c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0) {
      return cannotWrite(path, lastError());
    }
    llvm::raw_fd_ostream out(descriptor, /*shouldClose=*/true);
    return writeTo(out, path, write, /*close=*/true);
  }
  PartialFile partial;
  llvm::Expected<int> descriptor = partial.create(path);
  if (!descriptor) {
    return descriptor.takeError();
  }
  llvm::raw_fd_ostream out(*descriptor, /*shouldClose=*/true);
  llvm::Error error = writeTo(out, path, write, /*close=*/true);
  return error ? std::move(error) : partial.commit(path);
}

llvm::Error writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_pwrite_stream &)> write) {
  return tryWriteOutput(path, [&](llvm::raw_pwrite_stream &out) {
    write(out);
    return llvm::Error::success();
  });
}

llvm::Error checkOutput(llvm::StringRef path) {
  if (path == "-" || path.empty()) {
    return llvm::Error::success();
  }
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (!folder.empty() && !llvm::sys::fs::is_directory(folder)) {
    return llvm::createStringError("cannot write " + path + ": " + folder + " is not a folder");
  }
  struct stat info = {};
  if (lstat(path.str().c_str(), &info) != 0) {
    return errno == ENOENT ? llvm::Error::success() : cannotWrite(path, lastError());
  }
  if (S_ISLNK(info.st_mode)) {
    return llvm::createStringError("cannot write " + path + ": it is a symbolic link; name the file itself, or - for standard output");
  }
  if (!S_ISREG(info.st_mode) && !isStreamLike(path)) {
    return llvm::createStringError("cannot write " + path + ": it is there and not a regular file");
  }
  return llvm::Error::success();
}

llvm::Error checkReplaceable(llvm::StringRef path) {
  if (isStreamLike(path)) {
    return llvm::createStringError("cannot write " + path + ": it is there and not a regular file");
  }
  return checkOutput(path);
}

llvm::Error renameOutput(llvm::StringRef finished, llvm::StringRef path) {
  return rename(finished.str().c_str(), path.str().c_str()) == 0 ? llvm::Error::success() : cannotWrite(path, lastError());
}

} // namespace ashlar::file
