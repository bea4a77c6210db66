// SPDX-License-Identifier: Apache-2.0
//
// The one way in which the compiler and its tools write files. An output is there whole or not at all: it is written next to its place,
// under an unpredictable name, and then renamed. The replaced file is never opened for writing, so its permissions do not count: the
// permissions of the new file follow from the umask. Device files and pipes are written directly. A symbolic link is refused: the owner of
// its target cannot be known.

#ifndef ASHLAR_COMPILER_FILE_OUTPUT_FILE_H
#define ASHLAR_COMPILER_FILE_OUTPUT_FILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace ashlar::file {

// Writes `path`; "-" is stdout. An error names the file and the reason; the output then stays as it was.
llvm::Error writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_pwrite_stream &)> write);

// The same for a `write` that can fail.
llvm::Error tryWriteOutput(llvm::StringRef path, llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write);

// Fails when `path` cannot become an output, so that a long compilation does not end there: its folder does not exist, or it is a folder, a
// symbolic link or something else that cannot be written.
llvm::Error checkOutput(llvm::StringRef path);

// Fails also when it is a device file or a pipe, which a linker would replace.
llvm::Error checkReplaceable(llvm::StringRef path);

// Gives a finished file its name. Assumes that both are on one disk.
llvm::Error renameOutput(llvm::StringRef finished, llvm::StringRef path);

// Returns the error of an output that cannot be written, with its cause.
llvm::Error cannotWrite(llvm::StringRef path, std::error_code error);

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_OUTPUT_FILE_H
