// SPDX-License-Identifier: Apache-2.0
//
// Streams and staging memory of collectives between hosts.

#include "runtime/comm/hosts/host_streams.h"

#include <algorithm>

namespace ashlar::rt {

HostColumn::HostColumn(const CollectiveContext &context, const HostGroup &group, size_t column)
    : column(column), transport(context.transport), waiter(context.waiter), ranks(group.hosts()), streams(group.hosts()),
      sent(group.hosts()) {
  for (size_t host = 0; host < group.hosts(); ++host) {
    ranks[host] = group.server(host, column);
    streams[host] = host == group.self() ? 0 : transport->stream(ranks[host], kCollectives);
  }
}

uint64_t HostColumn::send(size_t host, Part part) {
  return sent[host] = transport->send(streams[host], part);
}

Status HostColumn::waitSent(size_t host, uint64_t number) {
  waiter.noteWait(ranks[host]);
  Status status = transport->waitSent(streams[host], number, waiter.naps());
  waiter.noteWaitEnd(status);
  return status;
}

Status HostColumn::waitReceived(size_t host, uint64_t number) {
  waiter.noteWait(ranks[host]);
  Status status = transport->waitReceived(streams[host], number, waiter.naps());
  waiter.noteWaitEnd(status);
  return status;
}

Status HostColumn::drain() {
  for (size_t host = 0; host < sent.size(); ++host) {
    if (sent[host] != 0) {
      ASHLAR_RETURN_IF_ERROR(waitSent(host, sent[host]));
    }
  }
  return Status();
}

void StagingPlaces::share(uint64_t budget, size_t most, size_t longest) {
  const uint64_t share = budget / most / kLineBytes * kLineBytes;
  bytesOfEach = std::clamp<uint64_t>(std::min<uint64_t>(share, roundUp(longest, kLineBytes)), kLineBytes, kMessageBytes);
  memory->reserve(count * bytesOfEach);
}

} // namespace ashlar::rt
