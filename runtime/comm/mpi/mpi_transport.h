// SPDX-License-Identifier: Apache-2.0
//
// Messages between hosts by MPI point to point.

#ifndef ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H
#define ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H

#include "runtime/comm/mpi/mpi_library.h"
#include "runtime/comm/mpi/send_progress.h"
#include "runtime/comm/mpi/wait_reports.h"
#include "runtime/comm/transport.h"

#include <deque>
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
  size_t addMessage(int peer, int channel, Part part) override;
  Status send(size_t message) override;
  Status finish(size_t message) override;
  Status receive(size_t message) override;
  bool servesThreads() const override { return threads; }
  Status allGather(const void *mine, size_t bytes, void *all) override;
  void tellWait(int rank, bool speaks) override;
  void watch(std::function<Status()> check) override { watched = std::move(check); }
  void abort() override;

private:
  // A wait for requests: the first `numReceives` are messages from rank `from`, the others messages to rank `to`. WaitReports::kAnybody:
  // with all ranks.
  struct Wait {
    Requests &requests;
    int from;
    size_t numReceives;
    int to;
    bool naps;
    bool hasSpoken = false;
  };

  // A message of addMessage(): its bytes, cut where they are too many for one message of MPI.
  struct Message {
    int peer, channel;
    Part part;
    Requests requests;
  };

  // Waits until the requests are done.
  Status complete(Wait wait, int &error);

  // Reports the missing rank, or ends the job, when it is time for this rank to do so. `waited` seconds so far.
  Status speak(Wait &wait, double waited);

  // Returns which of the two ranks a message is missing from or for.
  int missing(const Wait &wait);

  // Starts the requests of a message with `start`, and waits for them.
  template <typename Start> Status post(Message &message, Start &&start);
  Status await(Message &message, bool isReceive);

  MpiLibrary mpi;
  bool threads = false; // any thread may call it
  std::mutex telling;   // held around `reports`
  WaitReports reports;
  Requests requests;
  std::deque<Message> messages;
  SendProgress progress; // of messages that are sent
  std::function<Status()> watched;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_MPI_TRANSPORT_H
