// SPDX-License-Identifier: Apache-2.0
//
// A job's fields about all devices together, checked as far as possible from the job alone.

#ifndef ASHLAR_COMPILER_JOB_CHECK_PARALLEL_H
#define ASHLAR_COMPILER_JOB_CHECK_PARALLEL_H

#include "compiler/job/check_training.h"
#include "compiler/job/job.pb.h"

namespace ashlar::job {

// Checks that optimizer parallelism has something to split, and a mode whose layouts it may change.
Fault checkOptimizerParallel(const Job &job);

// Checks the stages and micro-batches of a pipeline, and that rules name its stages.
Fault checkPipeline(const Job &job);

// Checks the chunks of the deterministic variant against the batch and the mesh.
Fault checkDeterministic(const Job &job);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_CHECK_PARALLEL_H
