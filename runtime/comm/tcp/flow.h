// SPDX-License-Identifier: Apache-2.0
//
// One direction of a stream: the parts that were posted and have not moved entirely, in order.

#ifndef ASHLAR_RUNTIME_COMM_TCP_FLOW_H
#define ASHLAR_RUNTIME_COMM_TCP_FLOW_H

#include "runtime/comm/transport.h"

#include <vector>

#include <sys/uio.h>

namespace ashlar::rt {

class Flow {
public:
  // Adds a part at the end; returns its number, from 1 on.
  uint64_t post(Part part);

  // Number of the last part before which, and with which, all have moved.
  uint64_t done() const { return moved; }
  bool isIdle() const { return moved == posted; }

  // Fills `vectors` with the next bytes to move, at most so many pieces; returns how many there are.
  int next(iovec *vectors, int most) const;

  // Notes that so many of the next bytes have moved.
  void advance(size_t bytes);

private:
  Part &at(uint64_t number) { return ring[(number - 1) % ring.size()]; }
  const Part &at(uint64_t number) const { return ring[(number - 1) % ring.size()]; }
  void skipEmpty();

  std::vector<Part> ring; // part n is at (n - 1) % size; grows when it is full
  uint64_t posted = 0, moved = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_FLOW_H
