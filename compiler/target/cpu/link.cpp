// SPDX-License-Identifier: Apache-2.0
//
// Runs the linker of the machine and hands its first complaint on.

#include "compiler/target/cpu/link.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

namespace ashlar::cpu {
namespace {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

// Returns the first program of the list that the search path has; "" when it has none.
std::string findFirst(llvm::ArrayRef<llvm::StringRef> names) {
  for (llvm::StringRef name : names) {
    if (auto found = llvm::sys::findProgramByName(name)) {
      return *found;
    }
  }
  return "";
}

// Returns the line of a linker's output that says what is wrong: the first with "error", else the first.
std::string firstComplaint(llvm::StringRef logPath) {
  auto log = llvm::MemoryBuffer::getFile(logPath);
  if (!log) {
    return "no output";
  }
  llvm::SmallVector<llvm::StringRef> lines;
  (*log)->getBuffer().split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    if (line.contains("error") || line.contains("ERROR")) {
      return line.str();
    }
  }
  return lines.empty() ? "no output" : lines.front().str();
}

} // namespace

llvm::Expected<std::string> findRuntimeArchive(llvm::StringRef programPath) {
  llvm::SmallString<256> beside(path::parent_path(programPath));
  path::append(beside, "..", "lib", "libashlar_rt.a");
  path::remove_dots(beside, /*remove_dot_dot=*/true);
  for (llvm::StringRef candidate : {llvm::StringRef(beside), llvm::StringRef(ASHLAR_RUNTIME_ARCHIVE)}) {
    if (fs::exists(candidate)) {
      return candidate.str();
    }
  }
  return llvm::createStringError("the runtime is neither at %s nor at %s; build the target ashlar_rt", beside.c_str(),
                                 ASHLAR_RUNTIME_ARCHIVE);
}

llvm::Error linkExecutable(llvm::StringRef object, llvm::StringRef runtimeArchive, llvm::StringRef output) {
  std::string driver = findFirst({"clang++-22", "clang++", "c++", "g++"});
  if (driver.empty()) {
    return llvm::createStringError("no linker: none of clang++-22, clang++, c++ and g++ is on the PATH; install clang-22 or g++");
  }
  llvm::SmallString<128> log;
  if (std::error_code error = fs::createTemporaryFile("ashlarc-link", "log", log)) {
    return llvm::createStringError(error, "cannot write a temporary file: %s", error.message().c_str());
  }
  llvm::FileRemover removeLog(log);
  std::string partial = (output + ".tmp").str();
  llvm::FileRemover removePartial(partial); // of no effect once it is renamed
  llvm::SmallVector<llvm::StringRef> arguments = {driver, object, runtimeArchive, "-Wl,--gc-sections"};
  // lld maps its output file, and a full disk is then a bus error; what it writes to stdout it writes as a stream.
  bool isLld = !findFirst({"ld.lld", "ld.lld-22"}).empty();
  if (isLld) {
    fs::remove(partial); // the redirection does not truncate
    arguments.append({"-fuse-ld=lld", "-o", "-"});
  } else {
    arguments.append({"-o", partial});
  }
  arguments.append({"-lz", "-lpthread", "-ldl", "-lm"});
  llvm::StringRef standardOut = isLld ? llvm::StringRef(partial) : llvm::StringRef(log);
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), standardOut, llvm::StringRef(log)};
  std::string launchError;
  int status = llvm::sys::ExecuteAndWait(driver, arguments, std::nullopt, redirects, /*SecondsToWait=*/0, /*MemoryLimit=*/0, &launchError);
  if (status != 0) {
    std::string complaint = launchError.empty() ? firstComplaint(log) : launchError;
    return llvm::createStringError("cannot link %s: %s", output.str().c_str(), complaint.c_str());
  }
  std::error_code error = fs::setPermissions(partial, fs::all_read | fs::all_exe | fs::owner_write);
  if (!error) {
    error = fs::rename(partial, output);
  }
  if (error) {
    return llvm::createStringError(error, "cannot write %s: %s", output.str().c_str(), error.message().c_str());
  }
  return llvm::Error::success();
}

} // namespace ashlar::cpu
