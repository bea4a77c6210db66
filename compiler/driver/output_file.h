// SPDX-License-Identifier: Apache-2.0
//
// A file that is there whole or not at all.

#ifndef ASHLAR_COMPILER_DRIVER_OUTPUT_FILE_H
#define ASHLAR_COMPILER_DRIVER_OUTPUT_FILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace ashlar::driver {

// Writes `path` by way of `path`.tmp, which is renamed at the end and removed on failure. "-" is stdout.
llvm::Error writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);

// Fails when `path` cannot become the output, so that a long compilation does not end there: its folder does not exist, or it is something
// that a file must not replace, such as a folder or a device.
llvm::Error checkOutput(llvm::StringRef path);

// A fresh folder for intermediate files, removed with all it holds at the end.
class ScratchFolder {
public:
  ScratchFolder() = default;
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;
  ~ScratchFolder();

  // Creates the folder where the system keeps temporary files.
  llvm::Error create();

  // Returns the path of a file in it.
  std::string file(llvm::StringRef name) const;

private:
  std::string folder;
};

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_OUTPUT_FILE_H
