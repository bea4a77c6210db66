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
    if (line.contains("Bus error")) { // lld maps its output; what does not fit on the disk then raises SIGBUS
      return "no space left on device";
    }
    if (line.contains("error")) {
      return line.str();
    }
  }
  return lines.empty() ? "no output" : lines.front().str();
}

// A fresh folder beside the output, on the same disk, for what the linker writes. It goes with all it holds, temporary files of a linker
// that was killed included.
class PartialOutput {
public:
  PartialOutput() = default;
  PartialOutput(const PartialOutput &) = delete;
  ~PartialOutput() {
    if (!folder.empty()) {
      fs::remove_directories(folder);
    }
  }

  std::error_code create(llvm::StringRef output) {
    llvm::SmallString<256> prefix(output), created;
    if (std::error_code error = fs::make_absolute(prefix)) { // a relative prefix would mean the folder for temporary files
      return error;
    }
    std::error_code error = fs::createUniqueDirectory(prefix, created);
    folder = error ? "" : created.str().str();
    return error;
  }

  std::string program() const { return folder + "/program"; }

private:
  std::string folder; // empty: nothing was created
};

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
  PartialOutput partial;
  if (std::error_code error = partial.create(output)) {
    return llvm::createStringError(error, "cannot write %s: %s", output.str().c_str(), error.message().c_str());
  }
  llvm::SmallString<128> log; // not beside the output: its disk may be full
  if (std::error_code error = fs::createTemporaryFile("ashlarc-link", "log", log)) {
    return llvm::createStringError(error, "cannot write a temporary file: %s", error.message().c_str());
  }
  llvm::FileRemover removeLog(log);
  std::string program = partial.program();
  llvm::SmallVector<llvm::StringRef> arguments = {driver, object, runtimeArchive, "-o", program, "-Wl,--gc-sections"};
  if (!findFirst({"ld.lld", "ld.lld-22"}).empty()) {
    arguments.push_back("-fuse-ld=lld");
  }
  arguments.append({"-lz", "-lpthread", "-ldl", "-lm"});
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), llvm::StringRef(log), llvm::StringRef(log)};
  std::string launchError;
  int status = llvm::sys::ExecuteAndWait(driver, arguments, std::nullopt, redirects, /*SecondsToWait=*/0, /*MemoryLimit=*/0, &launchError);
  if (status != 0) {
    std::string complaint = launchError.empty() ? firstComplaint(log) : launchError;
    return llvm::createStringError("cannot link %s: %s", output.str().c_str(), complaint.c_str());
  }
  if (std::error_code error = fs::rename(program, output)) {
    return llvm::createStringError(error, "cannot write %s: %s", output.str().c_str(), error.message().c_str());
  }
  return llvm::Error::success();
}

} // namespace ashlar::cpu
