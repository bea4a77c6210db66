// SPDX-License-Identifier: Apache-2.0
//
// Messages between hosts by MPI point to point.

#ifndef ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H
#define ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H

#include "runtime/comm/mpi/mpi_library.h"
#include "runtime/comm/mpi/wait_reports.h"
#include "runtime/comm/transport.h"

#include <mutex>
#include <vector>

namespace ashlar::rt {

// Owns MPI from MPI_Init to MPI_Finalize.
class MpiTransport final : public Transport {
public:
  // Loads libmpi and initialises it, for rank `rank` of `ranks`.
  Status start(int rank, int ranks);

  // Finalises MPI. To be called by all ranks at the end of a good run.
  void finish();

  Status exchange(int to, const Part *sends, size_t numSends, int from, const Part *receives, size_t numReceives, bool naps) override;
  bool servesThreads() const override { return threads; }
  Status allGather(const void *mine, size_t bytes, void *all) override;
  void tellWait(int rank, bool speaks) override;
  void watch(std::function<Status()> check) override { watched = std::move(check); }
  void abort() override;

private:
  // Waits until the requests are done; the first `numReceives` are of messages from rank `from`, the others of messages to rank `to`.
  // WaitReports::kAnybody: with all ranks.
  Status complete(int from, size_t numReceives, int to, bool naps, int &error);

  // Says who does not come, or ends the job, when it is time for this rank to do so. `waited` seconds so far.
  Status speak(double waited);

  // Returns which of the two ranks a message is missing from or for.
  int missing(int from, size_t numReceives, int to);

  MpiLibrary mpi;
  bool threads = false; // any thread may call it
  std::mutex telling;   // held around `reports`
  WaitReports reports;
  std::vector<MPI_Request> requests;
  std::function<Status()> watched;
  bool hasSpoken = false; // in this wait
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H
