// SPDX-License-Identifier: Apache-2.0
//
// Runs the linker of the machine and hands its first complaint on.

#include "compiler/target/link.h"

#include "compiler/file/output_file.h"
#include "compiler/file/temporary_folder.h"
#include "compiler/target/tool.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace ashlar::target {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

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

llvm::Error linkExecutable(llvm::StringRef object, llvm::StringRef runtimeArchive, llvm::StringRef output, DebugInfo debugInfo) {
  std::string driver = findProgram({"clang++-22", "clang++", "c++", "g++"});
  if (driver.empty()) {
    return llvm::createStringError("no linker: none of clang++-22, clang++, c++ and g++ is on the PATH; install clang-22 or g++");
  }
  if (llvm::Error error = file::checkReplaceable(output)) {
    return error;
  }
  file::TemporaryFolder folder; // of the linker's temporary files too
  if (llvm::Error error = folder.createBeside(output)) {
    return llvm::createStringError("cannot write " + output + ": " + llvm::toString(std::move(error)));
  }
  llvm::SmallString<256> absolute(object); // the linker runs in the folder
  if (std::error_code error = fs::make_absolute(absolute)) {
    return file::cannotWrite(output, error);
  }
  llvm::SmallVector<llvm::StringRef> arguments = {absolute, runtimeArchive, "-o", "program", "-Wl,--gc-sections"};
  if (debugInfo == DebugInfo::Drop) {
    arguments.push_back("-Wl,--strip-debug");
  }
  if (!findProgram({"ld.lld", "ld.lld-22"}).empty()) {
    arguments.push_back("-fuse-ld=lld");
  }
  arguments.append({"-lz", "-lpthread", "-ldl", "-lm"});
  ToolRun linker;
  // lld reads each '%' of its output's path as a place for a random character, so the folder is not in it.
  if (llvm::Error error = linker.start(driver, arguments, folder.path())) {
    return error;
  }
  if (llvm::Error error = linker.wait()) {
    return llvm::createStringError("cannot link " + output + ": " + llvm::toString(std::move(error)));
  }
  return file::renameOutput(folder.file("program"), output);
}

} // namespace ashlar::target
