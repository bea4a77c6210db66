// SPDX-License-Identifier: Apache-2.0
//
// What collectives between hosts share: the streams of a column, and staging memory that several chunks of a run take in turn.

#ifndef ASHLAR_RUNTIME_COMM_HOSTS_HOST_STREAMS_H
#define ASHLAR_RUNTIME_COMM_HOSTS_HOST_STREAMS_H

#include "runtime/comm/hosts/host_group.h"
#include "runtime/comm/pieces.h"

#include <vector>

namespace ashlar::rt {

// Chunks of a run that are under way at a time: while one is combined, the next one is on the wire.
constexpr size_t kSlots = 2;

// One column that this process serves: a stream to each other host. What was posted on it is known by the numbers of the transport.
class HostColumn {
public:
  HostColumn(const CollectiveContext &context, const HostGroup &group, size_t column);

  // Posts bytes to a host, and room for bytes from it; of pieces, one after the other where they lie.
  uint64_t send(size_t host, Part part);
  uint64_t receive(size_t host, Part part) { return transport->receive(streams[host], part); }

  // Wait for what was posted up to a number.
  Status waitSent(size_t host, uint64_t number);
  Status waitReceived(size_t host, uint64_t number);

  // Waits until all that was posted to any host is sent.
  Status drain();

  const size_t column;

private:
  Transport *transport;
  Waiter waiter;
  std::vector<int> ranks;      // by host
  std::vector<size_t> streams; // by host; nothing for this one
  std::vector<uint64_t> sent;  // last numbers, by host
};

// Places in the staging memory of a communicator, which moves when it grows.
class StagingPlaces {
public:
  explicit StagingPlaces(Staging *memory) : memory(memory) {}

  // Takes one more buffer; returns its number.
  size_t add() { return count++; }

  // Gives each buffer as much as `most` of them get of `budget` bytes, but no more than `longest`. All processes of a group name the same
  // numbers: the two sides of a stream take turns at the same bytes.
  void share(uint64_t budget, size_t most, size_t longest);

  // Bytes of a buffer, and its place.
  size_t step() const { return bytesOfEach; }
  char *at(size_t buffer) const { return memory->data() + buffer * bytesOfEach; }

private:
  Staging *memory;
  size_t count = 0, bytesOfEach = kLineBytes;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_HOSTS_HOST_STREAMS_H
