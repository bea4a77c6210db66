// SPDX-License-Identifier: Apache-2.0
//
// Random optimizers, with schedules and clipping.

#ifndef ASHLAR_TEST_FUZZ_RANDOM_OPTIMIZER_H
#define ASHLAR_TEST_FUZZ_RANDOM_OPTIMIZER_H

#include "compiler/job/job.pb.h"
#include "test/fuzz/random_layout.h"

namespace ashlar::fuzz {

// Returns an optimizer. Epsilons are large half of the time, so that a gradient that is nothing but rounding moves little; schedules change
// within the first steps.
job::Optimizer randomOptimizer(Dice &dice);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_RANDOM_OPTIMIZER_H
