// SPDX-License-Identifier: Apache-2.0
//
// The suite on a GPU: a rank whose arena is device memory.

#ifndef ASHLAR_TEST_CONFORMANCE_DEVICE_RANK_H
#define ASHLAR_TEST_CONFORMANCE_DEVICE_RANK_H

#include "runtime/comm/communicator.h"
#include "test/conformance/collective_case.h"

#include <string>

namespace ashlar::test {

// Returns why this machine cannot run the suite on GPUs; "" when it can.
std::string deviceSkipReason();

// Runs all cases as one rank on its GPU, every round with new inputs, and returns the number of wrong results.
int runDeviceRank(rt::Communicator &communicator, const CollectiveProgram &program, int rounds);

} // namespace ashlar::test

#endif // ASHLAR_TEST_CONFORMANCE_DEVICE_RANK_H
