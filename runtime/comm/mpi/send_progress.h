// SPDX-License-Identifier: Apache-2.0
//
// A thread that pushes messages on while the thread that began to send them computes: a long one waits for an answer of the other side,
// which MPI takes in only while somebody calls it.

#ifndef ASHLAR_RUNTIME_COMM_MPI_SEND_PROGRESS_H
#define ASHLAR_RUNTIME_COMM_MPI_SEND_PROGRESS_H

#include "runtime/comm/mpi/mpi_library.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ashlar::rt {

// The requests of a message; empty: not under way.
using Requests = std::vector<MPI_Request>;

// State: the messages under way, which the thread tests, and nobody else; those it finds done are emptied. It sleeps while there are none.
class SendProgress {
public:
  SendProgress() = default;
  SendProgress(const SendProgress &) = delete;
  SendProgress &operator=(const SendProgress &) = delete;
  ~SendProgress() { stop(); }

  // Makes room for so many messages, and starts the thread; without one, where the system has no room for it, messages are as slow as MPI
  // makes them. The library outlives this, and serves several threads.
  void begin(const MpiLibrary &library, size_t messages);

  // Adds the requests of a message that was begun. Without begin(): does nothing.
  void add(Requests &requests);

  // Takes back the requests: the caller alone has them from now on.
  void remove(Requests &requests);

  // Ends the thread.
  void stop();

private:
  void loop();

  const MpiLibrary *mpi = nullptr;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable hasWork;
  std::vector<Requests *> underWay;
  bool ends = false;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_SEND_PROGRESS_H
