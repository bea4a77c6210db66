// SPDX-License-Identifier: Apache-2.0
//
// Collectives of a group between hosts that move bytes without reducing them. Bytes of one member that several members of a host get go to
// the host once, for any number of its ranks.

#ifndef ASHLAR_RUNTIME_COMM_HOSTS_HOSTS_MOVEMENT_H
#define ASHLAR_RUNTIME_COMM_HOSTS_HOSTS_MOVEMENT_H

#include "runtime/comm/hosts/host_streams.h"
#include "runtime/comm/placed_tensors.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// One group of a collective that moves bytes.
class HostsMovement {
public:
  HostsMovement(const CollectiveContext &context, const std::vector<PlacedTensor> &tensors, const Group &group);

  // Assumes that the inputs of all members on this host are there. Results are in the outputs of all of them once all processes of the host
  // are done.
  Status run();

private:
  // The traffic from one host to another as a run of bytes, seen from one of them: where it lies, or where it goes first.
  struct Traffic {
    Pieces pieces;
    std::vector<std::vector<Pieces::Piece>> copies; // by piece: where else it goes, with an equal view's bytes
  };

  // A copy between arenas of this host, or zeros without a source.
  struct Copy {
    const char *from;
    View fromView;
    char *to;
    View toView;
  };

  // A column: the ranges of what goes to and comes from each host, and what is under way, by slot and host.
  struct Lane {
    HostColumn streams;
    std::vector<Range> outgoing, incoming;
    std::vector<size_t> sendBuffers, receiveBuffers;
    std::vector<uint64_t> sent, received;
  };

  Traffic trafficBetween(const std::vector<PlacedTensor> &tensors, size_t from, size_t to) const;
  void addLocal(const std::vector<PlacedTensor> &tensors);
  void addLanes(const CollectiveContext &context, size_t inputBytes);
  Status post(Lane &lane, size_t chunk);
  Status take(Lane &lane, size_t chunk);

  HostGroup group;
  std::vector<size_t> otherHosts;
  std::vector<Traffic> outgoing, incoming; // by host
  std::vector<Copy> local;                 // to this process' devices
  StagingPlaces staging;
  std::vector<Lane> lanes;
  size_t chunks = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_HOSTS_HOSTS_MOVEMENT_H
