// SPDX-License-Identifier: Apache-2.0
//
// In place of the suite on a GPU, where Ashlar is built without the CUDA toolkit.

#include "test/conformance/device_rank.h"

namespace ashlar::test {

std::string deviceSkipReason() {
  return "built without the CUDA toolkit";
}

int runDeviceRank(rt::Communicator &, const CollectiveProgram &, int) {
  return 1;
}

} // namespace ashlar::test
