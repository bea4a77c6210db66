// SPDX-License-Identifier: Apache-2.0
//
// The entry points of NCCL that the runtime calls, loaded when a program of the cuda target runs on more than one rank.

#ifndef ASHLAR_RUNTIME_COMM_NCCL_NCCL_LIBRARY_H
#define ASHLAR_RUNTIME_COMM_NCCL_NCCL_LIBRARY_H

#include "runtime/base/status.h"

#include <nccl.h>

namespace ashlar::rt {

// Functions of libnccl, one line each.
#define ASHLAR_RT_NCCL_FUNCTIONS(function)                                                                                                 \
  function(ncclGetVersion) function(ncclGetUniqueId) function(ncclCommInitRankConfig) function(ncclCommDestroy)                            \
      function(ncclCommGetAsyncError) function(ncclGetErrorString) function(ncclGetLastError) function(ncclAllReduce)                      \
          function(ncclAllGather) function(ncclReduceScatter) function(ncclBroadcast) function(ncclSend) function(ncclRecv)                \
              function(ncclGroupStart) function(ncclGroupEnd)

// The loaded library. Members are null until load() succeeded.
struct NcclLibrary {
#define ASHLAR_RT_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  ASHLAR_RT_NCCL_FUNCTIONS(ASHLAR_RT_NCCL_MEMBER)
#undef ASHLAR_RT_NCCL_MEMBER

  // Loads libnccl and checks its version.
  static Status load(NcclLibrary &library, const char *soname = "libnccl.so.2");

  // Returns ok for success, else "WHAT: NCCL's message". Allocates nothing while ok.
  Status check(ncclResult_t result, const char *what, ncclComm_t comm = nullptr) const {
    return result == ncclSuccess ? Status() : failure(result, what, comm);
  }

  // The failure that check() returns.
  Status failure(ncclResult_t result, const std::string &what, ncclComm_t comm = nullptr) const;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_NCCL_NCCL_LIBRARY_H
