// SPDX-License-Identifier: Apache-2.0
//
// An NCCL of an old version: every symbol is there, none does anything.

#define ASHLAR_FAKE(name)                                                                                                                  \
  extern "C" int name() {                                                                                                                  \
    return 0;                                                                                                                              \
  }

ASHLAR_FAKE(ncclGetUniqueId)
ASHLAR_FAKE(ncclCommInitRankConfig)
ASHLAR_FAKE(ncclCommDestroy)
ASHLAR_FAKE(ncclCommGetAsyncError)
ASHLAR_FAKE(ncclGetErrorString)
ASHLAR_FAKE(ncclGetLastError)
ASHLAR_FAKE(ncclAllReduce)
ASHLAR_FAKE(ncclAllGather)
ASHLAR_FAKE(ncclReduceScatter)
ASHLAR_FAKE(ncclBroadcast)
ASHLAR_FAKE(ncclSend)
ASHLAR_FAKE(ncclRecv)
ASHLAR_FAKE(ncclGroupStart)
ASHLAR_FAKE(ncclGroupEnd)

typedef enum { ncclSuccess } ncclResult_t; // as nccl.h calls it: sanitizers compare the types of functions that are called

extern "C" ncclResult_t ncclGetVersion(int *version) {
  *version = 21005; // 2.10.5
  return ncclSuccess;
}
