// SPDX-License-Identifier: Apache-2.0
//
// The inputs of a compilation besides the model: the command line and the job, checked against each other.

#ifndef ASHLAR_COMPILER_COMMAND_INPUT_H
#define ASHLAR_COMPILER_COMMAND_INPUT_H

#include "compiler/command/code.h"
#include "compiler/command/options.h"
#include "compiler/file/file_roles.h"
#include "compiler/job/job.h"

#include <memory>

namespace ashlar::command {

struct Input {
  std::unique_ptr<CodeTarget> target;
  int64_t memoryLimit = 0; // bytes of a device; 0: any number
  file::FileRoles files;   // that are read or written
  job::Job job;            // with the mesh and the strategy of the command line
};

// Reads the job and makes the folder of --dump-phases. Fails when an option or the job is wrong, when they do not fit together or the
// target, and when a file cannot be written or would replace another one.
llvm::Expected<Input> readInput(const Options &options);

// The same in two steps, for options about several jobs: reading, and the errors of each job.
llvm::Expected<Input> readUnchecked(const Options &options);
llvm::Error checkInput(const Options &options, const job::Job &job, const Input &input);

} // namespace ashlar::command

#endif // ASHLAR_COMPILER_COMMAND_INPUT_H
