// SPDX-License-Identifier: Apache-2.0
//
// Processes and their logs.

#include "compiler/target/tool.h"

#include "compiler/file/cleanup.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fcntl.h>
#include <unistd.h>

namespace ashlar::target {

namespace {

// Has the process, and with it what it starts, work in another folder until the end of the scope.
class WorkFolder {
public:
  explicit WorkFolder(llvm::StringRef folder) {
    if (!folder.empty()) {
      before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC); // it need not be readable
      isThere = before >= 0 && chdir(folder.str().c_str()) == 0;
    }
  }
  ~WorkFolder() {
    if (before >= 0) {
      isThere = fchdir(before) == 0;
      close(before);
    }
  }
  WorkFolder(const WorkFolder &) = delete;

  // Whether the process works where it should.
  bool isEntered() const { return isThere; }

private:
  int before = -1; // the folder to go back to
  bool isThere = true;
};

} // namespace

std::string findProgram(llvm::ArrayRef<llvm::StringRef> names) {
  for (llvm::StringRef name : names) {
    if (auto found = llvm::sys::findProgramByName(name)) {
      llvm::SmallString<128> absolute(*found); // where the search path has folders that are not
      return llvm::sys::fs::make_absolute(absolute) ? *found : absolute.str().str();
    }
  }
  return "";
}

ToolRun::ToolRun(ToolRun &&other) : process(other.process), folder(std::move(other.folder)), launchError(std::move(other.launchError)) {
  other.process = llvm::sys::ProcessInfo();
}

ToolRun::~ToolRun() {
  if (process.Pid != llvm::sys::ProcessInfo::InvalidPid) {
    llvm::sys::Wait(process, std::nullopt);
    file::forgetProcess(process.Pid);
  }
}

llvm::Error ToolRun::start(llvm::StringRef program, llvm::ArrayRef<llvm::StringRef> arguments, llvm::StringRef workFolder) {
  folder = std::make_unique<file::TemporaryFolder>();
  if (llvm::Error error = folder->create()) { // not beside any output: its disk may be full
    return error;
  }
  llvm::SmallVector<llvm::StringRef> all = {program};
  all.append(arguments.begin(), arguments.end());
  std::string path = log();
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), llvm::StringRef(path), llvm::StringRef(path)};
  bool failed = false;
  WorkFolder there(workFolder);
  if (!there.isEntered()) {
    return llvm::createStringError("cannot start " + program + " in " + workFolder);
  }
  process = llvm::sys::ExecuteNoWait(program, all, std::nullopt, redirects, /*MemoryLimit=*/0, &launchError, &failed);
  if (failed) {
    return llvm::createStringError("cannot start " + program + ": " + launchError +
                                   "; if it is a limit, raise those on processes and memory (ulimit -u, ulimit -v)");
  }
  file::endAtSignal(process.Pid);
  return llvm::Error::success();
}

llvm::Error ToolRun::wait() {
  llvm::sys::ProcessInfo ended = llvm::sys::Wait(process, std::nullopt, &launchError);
  file::forgetProcess(process.Pid);
  process = llvm::sys::ProcessInfo();
  if (ended.ReturnCode == 0) {
    return llvm::Error::success();
  }
  if (llvm::StringRef(launchError).starts_with("Bus error")) { // lld maps its output; what does not fit on the disk then raises SIGBUS
    launchError = "no space left on device";
  }
  return llvm::createStringError(launchError.empty() ? firstComplaint() : launchError);
}

std::string ToolRun::output() const {
  auto text = llvm::MemoryBuffer::getFile(log());
  return text ? (*text)->getBuffer().str() : "";
}

std::string ToolRun::firstComplaint() const {
  std::string text = output();
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    if (line.contains("error") || line.contains("fatal")) {
      return line.trim().str();
    }
  }
  auto *told = llvm::find_if(lines, [](llvm::StringRef line) { return llvm::any_of(line, llvm::isAlnum); }); // not a line of dashes
  return told == lines.end() ? "no output" : told->str();
}

} // namespace ashlar::target
