// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process: for tests, and for looking at a job in a debugger.

#ifndef ASHLAR_RUNTIME_COMM_LOCAL_LOCAL_H
#define ASHLAR_RUNTIME_COMM_LOCAL_LOCAL_H

#include "runtime/comm/communicator.h"

namespace ashlar::rt {

// Makes one communicator for each process of all stages of the variant, all in this process. Each is to be used by a thread of its own.
Status createLocalCommunicators(const ashlar_rt_variant &variant, std::vector<std::unique_ptr<Communicator>> &communicators);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_LOCAL_LOCAL_H
