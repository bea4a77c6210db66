// SPDX-License-Identifier: Apache-2.0
//
// Programs that the compiler runs: the linker, ptxas, and ashlar-calibrate.

#ifndef ASHLAR_COMPILER_TARGET_TOOL_H
#define ASHLAR_COMPILER_TARGET_TOOL_H

#include "compiler/file/temporary_folder.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Program.h"

#include <memory>
#include <string>

namespace ashlar::target {

// Returns the first program of the list that the search path has; "" when it has none.
std::string findProgram(llvm::ArrayRef<llvm::StringRef> names);

// One run of a program, its output kept in a temporary file until the object goes.
class ToolRun {
public:
  ToolRun() = default;
  ToolRun(ToolRun &&other);
  ToolRun &operator=(ToolRun &&) = delete;
  // Waits for a program that still runs.
  ~ToolRun();

  // Starts `program`, a path; `arguments` come after its name. It runs in `workFolder`, "" for this process's folder.
  llvm::Error start(llvm::StringRef program, llvm::ArrayRef<llvm::StringRef> arguments, llvm::StringRef workFolder = "");

  // Waits for the end. An error is one line: the first one of the program, or why it did not start.
  llvm::Error wait();

  // Returns all that the program printed. Assumes wait().
  std::string output() const;

private:
  // Returns the path of the log. Assumes that there is a folder.
  std::string log() const { return folder->file("log"); }

  // Returns the line of the output with the error: the first with "error" or "fatal", else the first.
  std::string firstComplaint() const;

  llvm::sys::ProcessInfo process;                // Pid 0: nothing runs
  std::unique_ptr<file::TemporaryFolder> folder; // of the log; null: there is none
  std::string launchError;
};

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_TOOL_H
