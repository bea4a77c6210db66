// SPDX-License-Identifier: Apache-2.0
//
// Bytes between ranks of different hosts that are no part of a program, such as copies of checkpoints.

#ifndef ASHLAR_RUNTIME_COMM_EXCHANGE_H
#define ASHLAR_RUNTIME_COMM_EXCHANGE_H

#include "runtime/comm/transport.h"

#include <map>
#include <vector>

namespace ashlar::rt {

// One thread at a time uses it, while others run collectives and transfers.
class Exchange {
public:
  // Makes the streams. `transport` outlives this.
  Exchange(Transport &transport, const std::vector<int> &peers);

  // Post bytes for a peer, and room for the next bytes from it. They must stay until wait() returned.
  void send(int peer, Part part);
  void receive(int peer, Part part);

  // Waits until everything that was posted is sent, or has arrived.
  Status wait();

private:
  struct Posted {
    size_t stream;
    uint64_t number;
  };

  // Posts the part in pieces that a slow link still moves in a moment: a wait for one is no silence of the other side.
  template <typename Post> void post(Part part, Post post) const;

  Transport &transport;
  std::map<int, size_t> streams; // by rank
  std::vector<Posted> sent, received;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_EXCHANGE_H
