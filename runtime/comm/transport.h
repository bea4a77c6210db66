// SPDX-License-Identifier: Apache-2.0
//
// The transport of bytes between processes that share no memory. One implementation: TCP (runtime/comm/tcp).

#ifndef ASHLAR_RUNTIME_COMM_TRANSPORT_H
#define ASHLAR_RUNTIME_COMM_TRANSPORT_H

#include "runtime/base/status.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace ashlar::rt {

// So many bytes at an address.
struct Part {
  char *data;
  size_t bytes;
};

// Lanes of streams, each used by one thread at a time: of collectives, which run one after the other, of an Exchange, and of each channel
// between pipeline stages, kFirstChannel + its number.
enum Lane : int { kCollectives = 0, kExchange = 1, kFirstChannel = 2 };

// Streams of bytes between ranks. A stream has two directions; the bytes of each arrive in the order in which they were posted, and the two
// sides need not cut them alike. Streams do not wait for each other. Functions without a wait never block.
class Transport {
public:
  virtual ~Transport() = default;

  // Returns the number of the stream to and from rank `peer` on a lane, and makes it at the first call. Both sides call it, before seal().
  virtual size_t stream(int peer, int lane) = 0;

  // Connects the streams that were made so far; waits for the other sides. After it no stream can be made, and nobody can connect.
  virtual Status seal() = 0;

  // Posts bytes to be sent, or room for the next bytes to arrive; returns a number for the waits below, which rises with each call. They
  // must stay as they are, and where they are, until then.
  virtual uint64_t send(size_t stream, Part part) = 0;
  virtual uint64_t receive(size_t stream, Part part) = 0;

  // Wait until all that was posted on the stream's direction up to that number is sent (its bytes may be overwritten), or has arrived. 0
  // waits for nothing. `naps`: between two looks from the start on, so that the core is free for others.
  virtual Status waitSent(size_t stream, uint64_t number, bool naps = false) = 0;
  virtual Status waitReceived(size_t stream, uint64_t number, bool naps = false) = 0;

  // Gathers `bytes` from each rank: rank r's lie at `all` + r * bytes. Every rank calls it, before and after seal().
  virtual Status allGather(const void *mine, size_t bytes, void *all) = 0;

  // Reports to the ranks of other hosts that this one waits for `rank` on its own host, -1: no longer. `speaks`: and reports it to the
  // user. Any thread may call it.
  virtual void tellWait(int rank, bool speaks) = 0;

  // Calls `check` several times a second while it waits, and ends the wait with an error that this returns. An empty one: no longer.
  virtual void watch(std::function<Status()> check) = 0;

  // Ends the job on all hosts, as far as the others listen. From then on, as after a wait that failed, no bytes move: what was posted may
  // go.
  virtual void abort() = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TRANSPORT_H
