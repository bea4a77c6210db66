// SPDX-License-Identifier: Apache-2.0
//
// A job's fields about the machine.

#ifndef ASHLAR_COMPILER_JOB_CHECK_MACHINE_H
#define ASHLAR_COMPILER_JOB_CHECK_MACHINE_H

#include "compiler/job/check_training.h"

namespace ashlar::job {

// Checks that tables of rates rise and lack nothing, and that no kind of collective is there twice. Numbers alone are checked by their
// ranges.
Fault checkMachine(const Job &job);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_CHECK_MACHINE_H
