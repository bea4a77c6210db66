// SPDX-License-Identifier: Apache-2.0
//
// The transport of bytes between processes that share no memory. One implementation: MPI (runtime/comm/mpi).

#ifndef ASHLAR_RUNTIME_COMM_TRANSPORT_H
#define ASHLAR_RUNTIME_COMM_TRANSPORT_H

#include "runtime/base/status.h"

#include <cstddef>
#include <functional>

namespace ashlar::rt {

// A message: so many bytes at an address.
struct Part {
  char *data;
  size_t bytes;
};

// Point-to-point exchange between ranks. One thread at a time exchanges or gathers, and one sends and receives messages, while another may
// exchange when servesThreads(); tellWait() may come from any.
class Transport {
public:
  virtual ~Transport() = default;

  // Sends `sends` to rank `to` while receiving `receives` from rank `from`. The other side's calls must name the same sizes in the same
  // order. A count of 0 is fine on either side. `naps`: between two looks from the start on, so that the core is free for others.
  virtual Status exchange(int to, const Part *sends, size_t numSends, int from, const Part *receives, size_t numReceives,
                          bool naps = false) = 0;

  // Makes room for a message of a channel to or from rank `peer`, whose bytes lie at one place: to be sent or received again and again.
  // Returns its number. Those to one rank on one channel, and those from one rank on one channel, arrive in the order in which they are
  // sent.
  virtual size_t addMessage(int peer, int channel, Part part) = 0;

  // Begins to send a message; waits until its bytes may be overwritten, at once when it was not sent; receives one.
  virtual Status send(size_t message) = 0;
  virtual Status finish(size_t message) = 0;
  virtual Status receive(size_t message) = 0;

  // Whether a thread other than the one that made it may exchange.
  virtual bool servesThreads() const = 0;

  // Gathers `bytes` from each rank: rank r's lie at `all` + r * bytes. Every rank calls it.
  virtual Status allGather(const void *mine, size_t bytes, void *all) = 0;

  // Reports to the ranks of other hosts that this one waits for `rank` on its own host, -1: no longer. `speaks`: and reports it to the
  // user.
  virtual void tellWait(int rank, bool speaks) = 0;

  // Calls `check` several times a second while it waits, and ends the wait with an error that this returns. An empty one: no longer.
  virtual void watch(std::function<Status()> check) = 0;

  // Ends the job on all hosts; does not return on success.
  virtual void abort() = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TRANSPORT_H
