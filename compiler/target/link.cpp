// SPDX-License-Identifier: Apache-2.0
//
// Runs the linker of the machine and hands its first complaint on.

#include "compiler/target/link.h"

#include "compiler/target/tool.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace ashlar::target {
namespace {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

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
  std::string driver = findProgram({"clang++-22", "clang++", "c++", "g++"});
  if (driver.empty()) {
    return llvm::createStringError("no linker: none of clang++-22, clang++, c++ and g++ is on the PATH; install clang-22 or g++");
  }
  PartialOutput partial;
  if (std::error_code error = partial.create(output)) {
    return llvm::createStringError(error, "cannot write %s: %s", output.str().c_str(), error.message().c_str());
  }
  std::string program = partial.program();
  llvm::SmallVector<llvm::StringRef> arguments = {object, runtimeArchive, "-o", program, "-Wl,--gc-sections"};
  if (!findProgram({"ld.lld", "ld.lld-22"}).empty()) {
    arguments.push_back("-fuse-ld=lld");
  }
  arguments.append({"-lz", "-lpthread", "-ldl", "-lm"});
  ToolRun linker;
  if (llvm::Error error = linker.start(driver, arguments)) {
    return error;
  }
  if (llvm::Error error = linker.wait()) {
    return llvm::createStringError("cannot link " + output + ": " + llvm::toString(std::move(error)));
  }
  if (std::error_code error = fs::rename(program, output)) {
    return llvm::createStringError(error, "cannot write %s: %s", output.str().c_str(), error.message().c_str());
  }
  return llvm::Error::success();
}

} // namespace ashlar::target
