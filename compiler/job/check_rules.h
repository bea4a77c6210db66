// SPDX-License-Identifier: Apache-2.0
//
// The rules of a job, and a strategy in their place.

#ifndef ASHLAR_COMPILER_JOB_CHECK_RULES_H
#define ASHLAR_COMPILER_JOB_CHECK_RULES_H

#include "compiler/job/check_training.h"

namespace ashlar::job {

// Checks each rule alone and against the mode. Names, axes and ranks are checked where the model and the mesh are known.
Fault checkRules(const Job &job);

// Checks that a strategy, if there is one, has something to apply to. Whether it fits is checked where the model is known.
Fault checkStrategy(const Job &job);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_CHECK_RULES_H
