// SPDX-License-Identifier: Apache-2.0
//
// The one way in which the compiler and its tools read files, all by openRegularFile(): nothing that a job or a model names is waited for,
// or read without an end. An error begins with "cannot be read: " and holds none of the file.

#ifndef ASHLAR_COMPILER_FILE_INPUT_FILE_H
#define ASHLAR_COMPILER_FILE_INPUT_FILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdint>
#include <memory>

namespace ashlar::file {

// Bytes that a text (a job, a machine, a strategy, an order) has at most.
inline constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;

// Whether a pipe is read as well. Only of files that the command line names: `--job <(sed ... job.txtpb)`.
enum class Pipes { Refused, Taken };

// Reads a text, to its end. A pipe is given up when nothing comes for ten seconds.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readText(llvm::StringRef path, Pipes pipes);

// Maps a file of any size.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> mapFile(llvm::StringRef path);

// Maps a part of a file. Assumes that the file has it.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> mapPart(llvm::StringRef path, uint64_t offset, uint64_t bytes);

// A path with all symbolic links followed, and whether it is below a folder.
struct ResolvedPath {
  std::string path;
  bool isBelow = false;
};

// Follows the links of a path that begins at a folder ("": the current one). Fails where nothing is there. Example: ("jobs", "a/b"), where
// b is a link to ../../c -> {"/home/u/c", false}.
llvm::Expected<ResolvedPath> resolveBelow(llvm::StringRef folder, llvm::StringRef path);

// Returns true if a path names something below the folder that it begins at, links aside: "a/b", but not "../b" or "/b".
bool namesBelow(llvm::StringRef path);

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_INPUT_FILE_H
