// SPDX-License-Identifier: Apache-2.0
//
// The checks of the fields of training: loss, optimizer, data.

#ifndef ASHLAR_COMPILER_JOB_CHECK_TRAINING_H
#define ASHLAR_COMPILER_JOB_CHECK_TRAINING_H

#include "compiler/job/job.pb.h"

#include <string>

namespace ashlar::job {

// A fact that is wrong, or "" when all is well; of several checks the first fault wins.
using Fault = std::string;

// Checks loss, optimizer and dataset: all there or none, each complete, and the data set feeds the labels. Assumes checked mesh and batch.
Fault checkTraining(const Job &job);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_CHECK_TRAINING_H
