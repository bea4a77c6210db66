// SPDX-License-Identifier: Apache-2.0
//
// See run_files.h.

#include "runtime/run/run_files.h"

#include <filesystem>
#include <system_error>

namespace ashlar::rt {

FileRoles filesOf(const Session &session, const Loader &loader, const std::vector<OutputTensor> &tensors, const char *option) {
  FileRoles files;
  std::error_code error;
  files.addInput("this executable", std::filesystem::read_symlink("/proc/self/exe", error).string());
  for (const std::string &path : loader.paths()) {
    files.addInput(loader.resumes() ? "a file of --resume" : "a file of --init-from", path);
  }
  if (session.communicator->rank() == 0) {
    files.addOutput("--trace", session.options->traceFile);
    for (const OutputTensor &tensor : tensors) {
      files.addOutput(fmt::format("{} {}", option, tensor.tensor->name), tensor.path);
    }
  }
  return files;
}

} // namespace ashlar::rt
