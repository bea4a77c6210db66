// SPDX-License-Identifier: Apache-2.0
//
// What a job says about putting collectives together.

#ifndef ASHLAR_COMPILER_JOB_CHECK_COMM_FUSION_H
#define ASHLAR_COMPILER_JOB_CHECK_COMM_FUSION_H

#include "compiler/job/check_training.h"

namespace ashlar::job {

// Checks that each kind's numbers are those of its mode. Whether parameters have ids beside it is checked where their collectives are
// known.
Fault checkCommFusion(const Job &job);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_CHECK_COMM_FUSION_H
