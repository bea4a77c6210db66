// SPDX-License-Identifier: Apache-2.0
//
// Asks the parts of the compiler for the files that they would take.

#include "compiler/driver/installation.h"

#include "compiler/file/installation.h"
#include "compiler/target/cuda/toolkit.h"
#include "compiler/target/link.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace ashlar::driver {

std::string versionDetails() {
  return std::string(", LLVM " LLVM_VERSION_STRING ", targets cpu") + (cuda::isConfigured() ? ", cuda" : "");
}

int printPaths() {
  llvm::Expected<target::LinkFiles> files = target::findLinkFiles();
  if (!files) {
    llvm::errs() << "error: " << llvm::toString(files.takeError()) << "\n";
    return 1;
  }
  llvm::outs() << "runtime " << files->runtime << "\nbuiltins " << files->builtins << "\nlinker " << files->linker << "\n";
  llvm::Expected<cuda::Toolkit> toolkit = cuda::findToolkit();
  if (toolkit) {
    llvm::outs() << "ptxas " << toolkit->ptxas << "\nlibdevice " << toolkit->libdevice << "\n";
  } else {
    llvm::consumeError(toolkit.takeError()); // --target cuda reports it
  }
  const std::pair<llvm::StringRef, llvm::StringRef> folders[] = {{"headers", "include/ashlar"},
                                                                 {"cmake", "lib/cmake/Ashlar"},
                                                                 {"documentation", "share/ashlar/docs"},
                                                                 {"jobs", "share/ashlar/docs/jobs"}};
  for (const auto &[name, folder] : folders) { // of an installation
    if (const std::string path = file::installedFile(folder); llvm::sys::fs::exists(path)) {
      llvm::outs() << name << " " << path << "\n";
    }
  }
  return 0;
}

} // namespace ashlar::driver
