// SPDX-License-Identifier: Apache-2.0
//
// Runs the linker of the machine and hands its first complaint on.

#include "compiler/target/link.h"

#include "compiler/file/installation.h"
#include "compiler/file/output_file.h"
#include "compiler/file/temporary_folder.h"
#include "compiler/target/tool.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <vector>

#include <link.h>

namespace ashlar::target {
namespace {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

// The shared libraries that the runtime uses, without their versions.
constexpr llvm::StringRef kLibraries[] = {"libstdc++.so", "libm.so", "libgcc_s.so", "libz.so", "libc.so"};

// Of this process: its loader, and the files of the libraries above.
struct Process {
  std::string loader;
  std::vector<std::string> libraries;
};

int addObject(dl_phdr_info *info, size_t, void *context) {
  auto &process = *static_cast<Process *>(context);
  for (const ElfW(Phdr) &header : llvm::ArrayRef(info->dlpi_phdr, info->dlpi_phnum)) {
    if (header.p_type == PT_INTERP && process.loader.empty()) { // the program comes first
      process.loader = reinterpret_cast<const char *>(info->dlpi_addr + header.p_vaddr);
    }
  }
  const llvm::StringRef name = path::filename(info->dlpi_name);
  if (llvm::any_of(kLibraries, [&](llvm::StringRef library) { return name.starts_with(library); })) {
    process.libraries.push_back(info->dlpi_name);
  }
  return 0;
}

} // namespace

llvm::Expected<LinkFiles> findLinkFiles() {
  LinkFiles files{file::installedFile("lib/ashlar/ld.lld"), file::installedFile("lib/libashlar_rt.a"),
                  file::installedFile("lib/libashlar_builtins.a"), file::installedFile("lib/libashlar_jpeg.a"),
                  file::installedFile("lib/libashlar_png.a")};
  for (const std::string &archive : {files.runtime, files.builtins, files.jpeg, files.png}) {
    if (!fs::exists(archive)) {
      return llvm::createStringError("the runtime is not at " + archive + "; install Ashlar again, or build the target ashlar_rt");
    }
  }
  if (!fs::can_execute(files.linker)) {
    files.linker = findProgram({"ld.lld-22", "ld.lld", "ld"});
  }
  if (files.linker.empty()) {
    return llvm::createStringError("no linker: none of ld.lld-22, ld.lld and ld is on the PATH; install lld-22 or binutils");
  }
  return files;
}

llvm::Error linkExecutable(const LinkFiles &files, llvm::StringRef object, llvm::StringRef output, DebugInfo debugInfo) {
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
  Process process;
  dl_iterate_phdr(addObject, &process);
  llvm::SmallVector<llvm::StringRef> arguments = {"-pie",
                                                  "--eh-frame-hdr",
                                                  "--gc-sections",
                                                  "--as-needed",
                                                  "--hash-style=gnu",
                                                  "-z",
                                                  "relro",
                                                  "-z",
                                                  "now",
                                                  "-z",
                                                  "noexecstack",
                                                  "--undefined=_start",
                                                  "-o",
                                                  "program",
                                                  "-dynamic-linker",
                                                  process.loader};
  if (debugInfo == DebugInfo::Drop) {
    arguments.push_back("--strip-all");
  }
  if (path::filename(files.linker).contains("lld")) { // equal functions become one
    arguments.push_back("--icf=safe");
  }
  arguments.append({absolute, files.runtime, files.jpeg, files.png, files.builtins});
  arguments.append(process.libraries.begin(), process.libraries.end());
  ToolRun linker;
  // lld reads each '%' of its output's path as a place for a random character, so the folder is not in it.
  if (llvm::Error error = linker.start(files.linker, arguments, folder.path())) {
    return error;
  }
  if (llvm::Error error = linker.wait()) {
    return llvm::createStringError("cannot link " + output + ": " + llvm::toString(std::move(error)));
  }
  return file::renameOutput(folder.file("program"), output);
}

} // namespace ashlar::target
