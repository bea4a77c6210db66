// SPDX-License-Identifier: Apache-2.0
//
// Messages between hosts by MPI point to point.

#include "runtime/comm/mpi/mpi_transport.h"

#include <climits>

namespace ashlar::rt {
namespace {

constexpr int kTag = 7;

// Messages of one exchange that have room without an allocation.
constexpr size_t kRequests = 256;

// Longest single message; longer parts are cut.
constexpr size_t kLargestMessage = size_t{1} << 30;

} // namespace

Status MpiTransport::start() {
  ASHLAR_RETURN_IF_ERROR(MpiLibrary::load(mpi));
  requests.reserve(kRequests);
  if (int error = mpi.MPI_Init(nullptr, nullptr); error != MPI_SUCCESS) {
    return unavailable("MPI_Init failed with error {}", error);
  }
  return Status();
}

void MpiTransport::finish() {
  mpi.MPI_Finalize();
}

Status MpiTransport::exchange(int to, const Part *sends, size_t numSends, int from, const Part *receives, size_t numReceives) {
  requests.clear();
  int error = MPI_SUCCESS;
  auto post = [&](const Part &part, auto &&start) {
    for (size_t begin = 0; begin < part.bytes; begin += kLargestMessage) {
      size_t length = part.bytes - begin < kLargestMessage ? part.bytes - begin : kLargestMessage;
      requests.emplace_back();
      int result = start(part.data + begin, static_cast<int>(length), &requests.back());
      error = error == MPI_SUCCESS ? result : error;
    }
  };
  for (size_t i = 0; i < numReceives; ++i) {
    post(receives[i], [&](char *data, int bytes, MPI_Request *request) {
      return mpi.MPI_Irecv(data, bytes, mpi.byte, from, kTag, mpi.commWorld, request);
    });
  }
  for (size_t i = 0; i < numSends; ++i) {
    post(sends[i], [&](char *data, int bytes, MPI_Request *request) {
      return mpi.MPI_Isend(data, bytes, mpi.byte, to, kTag, mpi.commWorld, request);
    });
  }
  int waited = mpi.MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  error = error == MPI_SUCCESS ? waited : error;
  return error == MPI_SUCCESS ? Status() : unavailable("exchange with ranks {} and {} failed: MPI error {}", to, from, error);
}

Status MpiTransport::allGather(const void *mine, size_t bytes, void *all) {
  int count = static_cast<int>(bytes);
  int error = mpi.MPI_Allgather(mine, count, mpi.byte, all, count, mpi.byte, mpi.commWorld);
  return error == MPI_SUCCESS ? Status() : unavailable("gathering {} bytes from all ranks failed: MPI error {}", bytes, error);
}

void MpiTransport::abort() {
  mpi.MPI_Abort(mpi.commWorld, 1);
}

} // namespace ashlar::rt
