// SPDX-License-Identifier: Apache-2.0
//
// Bytes of every rank for rank 0, more of them than fit into a message of the window.

#ifndef ASHLAR_RUNTIME_RUN_GATHER_BYTES_H
#define ASHLAR_RUNTIME_RUN_GATHER_BYTES_H

#include "runtime/run/session.h"

#include <vector>

namespace ashlar::rt {

// Sends each rank's bytes to rank 0: all[rank], empty on other ranks. Every rank calls it, between two steps: the bytes pass through the
// host memory of the devices, which has its old content again on return.
Status gatherBytes(Session &session, const std::vector<char> &mine, std::vector<std::vector<char>> &all);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_GATHER_BYTES_H
