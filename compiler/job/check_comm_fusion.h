// SPDX-License-Identifier: Apache-2.0
//
// A job's fields about the fusion of collectives.

#ifndef ASHLAR_COMPILER_JOB_CHECK_COMM_FUSION_H
#define ASHLAR_COMPILER_JOB_CHECK_COMM_FUSION_H

#include "compiler/job/check_training.h"

namespace ashlar::job {

// Checks the numbers of each kind against its mode. Conflicts with ids of parameters are checked where their collectives are known.
Fault checkCommFusion(const Job &job);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_CHECK_COMM_FUSION_H
