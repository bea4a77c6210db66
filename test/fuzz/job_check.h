// SPDX-License-Identifier: Apache-2.0
//
// Random jobs from end to end: ashlarc compiles model and job, the executable trains on files, and its losses, its evaluation and its final
// parameters equal the reference's.

#ifndef ASHLAR_TEST_FUZZ_JOB_CHECK_H
#define ASHLAR_TEST_FUZZ_JOB_CHECK_H

#include "test/fuzz/oracle.h"
#include "test/fuzz/random_job.h"

namespace ashlar::fuzz {

// Checks a job. With a `keepFolder` the model, the job, the data and the logs stay there.
Verdict checkJob(mlir::MLIRContext &context, const RandomJob &job, const std::string &keepFolder = "");

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_JOB_CHECK_H
