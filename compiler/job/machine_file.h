// SPDX-License-Identifier: Apache-2.0
//
// The file of --machine: the machine of a job, alone.

#ifndef ASHLAR_COMPILER_JOB_MACHINE_FILE_H
#define ASHLAR_COMPILER_JOB_MACHINE_FILE_H

#include "compiler/job/job.h"

namespace ashlar::job {

// Returns the machine of a file that has nothing else, checked. Fails with one line that names the file.
llvm::Expected<Machine> readMachine(const std::string &path);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_MACHINE_FILE_H
