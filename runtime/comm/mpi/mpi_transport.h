// SPDX-License-Identifier: Apache-2.0
//
// Messages between hosts by MPI point to point.

#ifndef ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H
#define ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H

#include "runtime/comm/mpi/mpi_library.h"
#include "runtime/comm/transport.h"

#include <vector>

namespace ashlar::rt {

// Owns MPI from MPI_Init to MPI_Finalize.
class MpiTransport final : public Transport {
public:
  // Loads libmpi and initialises it.
  Status start();

  // Finalises MPI. To be called by all ranks at the end of a good run.
  void finish();

  Status exchange(int to, const Part *sends, size_t numSends, int from, const Part *receives, size_t numReceives) override;
  Status allGather(const void *mine, size_t bytes, void *all) override;
  void abort() override;

private:
  // Waits until the requests are done, with ranks `from` and `to`; -1: with all ranks.
  Status complete(int from, int to, int &error);

  MpiLibrary mpi;
  std::vector<MPI_Request> requests;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H
