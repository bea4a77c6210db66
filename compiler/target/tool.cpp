// SPDX-License-Identifier: Apache-2.0
//
// Processes and their logs.

#include "compiler/target/tool.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

namespace ashlar::target {

namespace fs = llvm::sys::fs;

std::string findProgram(llvm::ArrayRef<llvm::StringRef> names) {
  for (llvm::StringRef name : names) {
    if (auto found = llvm::sys::findProgramByName(name)) {
      return *found;
    }
  }
  return "";
}

ToolRun::ToolRun(ToolRun &&other) : process(other.process), log(other.log), launchError(std::move(other.launchError)) {
  other.process = llvm::sys::ProcessInfo();
  other.log.clear();
}

ToolRun::~ToolRun() {
  if (process.Pid != llvm::sys::ProcessInfo::InvalidPid) {
    llvm::sys::Wait(process, std::nullopt);
  }
  if (!log.empty()) {
    fs::remove(log);
  }
}

llvm::Error ToolRun::start(llvm::StringRef program, llvm::ArrayRef<llvm::StringRef> arguments) {
  // Not beside any output: its disk may be full.
  if (std::error_code error = fs::createTemporaryFile("ashlarc-tool", "log", log)) {
    log.clear();
    return llvm::createStringError(error, "cannot write a temporary file: %s", error.message().c_str());
  }
  llvm::SmallVector<llvm::StringRef> all = {program};
  all.append(arguments.begin(), arguments.end());
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), llvm::StringRef(log), llvm::StringRef(log)};
  bool failed = false;
  process = llvm::sys::ExecuteNoWait(program, all, std::nullopt, redirects, /*MemoryLimit=*/0, &launchError, &failed);
  return failed ? llvm::createStringError(program + ": " + launchError) : llvm::Error::success();
}

llvm::Error ToolRun::wait() {
  llvm::sys::ProcessInfo ended = llvm::sys::Wait(process, std::nullopt, &launchError);
  process = llvm::sys::ProcessInfo();
  if (ended.ReturnCode == 0) {
    return llvm::Error::success();
  }
  return llvm::createStringError(launchError.empty() ? firstComplaint() : launchError);
}

std::string ToolRun::output() const {
  auto text = llvm::MemoryBuffer::getFile(log);
  return text ? (*text)->getBuffer().str() : "";
}

std::string ToolRun::firstComplaint() const {
  std::string text = output();
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    if (line.contains("Bus error")) { // lld maps its output; what does not fit on the disk then raises SIGBUS
      return "no space left on device";
    }
    if (line.contains("error") || line.contains("fatal")) {
      return line.trim().str();
    }
  }
  return lines.empty() ? "no output" : lines.front().str();
}

} // namespace ashlar::target
