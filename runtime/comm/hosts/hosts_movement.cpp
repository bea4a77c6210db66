// SPDX-License-Identifier: Apache-2.0
//
// Movements between hosts: chunk k of each column is sent while chunk k-1 is put where it goes.

#include "runtime/comm/hosts/hosts_movement.h"

#include "runtime/abi/memory_sizes.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

bool isSame(const View &a, const View &b) {
  return a.offset == b.offset && a.block == b.block && a.stride == b.stride && a.count == b.count;
}

} // namespace

HostsMovement::HostsMovement(const CollectiveContext &context, const std::vector<PlacedTensor> &tensors, const Group &members)
    : group(context, members), otherHosts(group.others()), outgoing(group.hosts()), incoming(group.hosts()), staging(context.staging) {
  for (size_t host : otherHosts) {
    outgoing[host] = trafficBetween(tensors, group.self(), host);
    incoming[host] = trafficBetween(tensors, host, group.self());
  }
  addLocal(tensors);
  addLanes(context, inputBytes(tensors));
}

// Both hosts list the same pieces in the same order: by tensor, source and target.
HostsMovement::Traffic HostsMovement::trafficBetween(const std::vector<PlacedTensor> &tensors, size_t from, size_t to) const {
  Traffic traffic;
  const bool sends = from == group.self();
  for (const PlacedTensor &tensor : tensors) {
    for (int source : group.members(from)) {
      std::vector<View> known; // of the source's input: what goes to the host already
      const size_t first = traffic.pieces.list.size();
      for (int target : group.members(to)) {
        Movement movement;
        if (!tensor.shape.movement(source, target, movement)) {
          continue;
        }
        const auto found = std::find_if(known.begin(), known.end(), [&](const View &view) { return isSame(view, movement.from); });
        const size_t index = first + static_cast<size_t>(found - known.begin());
        if (sends && found == known.end()) {
          traffic.pieces.add(group.arena(source) + tensor.in.offset, movement.from);
        } else if (!sends && found == known.end()) {
          traffic.pieces.add(group.arena(target) + tensor.out.offset, movement.to);
        } else if (!sends) {
          traffic.copies[index].push_back({group.arena(target) + tensor.out.offset, movement.to, traffic.pieces.list[index].first});
        }
        if (found == known.end()) {
          known.push_back(movement.from);
          traffic.copies.emplace_back();
        }
      }
    }
  }
  return traffic;
}

void HostsMovement::addLocal(const std::vector<PlacedTensor> &tensors) {
  for (const PlacedTensor &tensor : tensors) {
    for (int target : group.members(group.self())) {
      if (!group.isMine(target)) {
        continue;
      }
      char *out = group.arena(target) + tensor.out.offset;
      for (const View &view : tensor.shape.zeroed(target)) {
        local.push_back(Copy{nullptr, view, out, view});
      }
      for (int source : group.members(group.self())) {
        Movement movement;
        if (tensor.shape.movement(source, target, movement)) {
          local.push_back(Copy{group.arena(source) + tensor.in.offset, movement.from, out, movement.to});
        }
      }
    }
  }
}

void HostsMovement::addLanes(const CollectiveContext &context, size_t inputBytes) {
  size_t longest = 0;
  for (size_t column : group.columns()) {
    Lane lane{HostColumn(context, group, column), {}, {}, {}, {}, {}, {}};
    for (size_t host = 0; host < group.hosts(); ++host) {
      lane.outgoing.push_back(Range{0, outgoing[host].pieces.bytes}.part(column, group.numColumns()));
      lane.incoming.push_back(Range{0, incoming[host].pieces.bytes}.part(column, group.numColumns()));
      longest = std::max({longest, lane.outgoing.back().size(), lane.incoming.back().size()});
    }
    for (size_t i = 0; i < kSlots * group.hosts(); ++i) {
      lane.sendBuffers.push_back(staging.add());
      lane.receiveBuffers.push_back(staging.add());
    }
    lane.sent.resize(kSlots * group.hosts());
    lane.received.resize(kSlots * group.hosts());
    lanes.push_back(std::move(lane));
  }
  staging.share(hostsStaging(group.numMembers(), inputBytes), 2 * kSlots * group.mostColumns() * group.hosts(),
                group.numMembers() * inputBytes);
  chunks = (longest + staging.step() - 1) / staging.step();
}

Status HostsMovement::run() {
  for (size_t round = 0; !lanes.empty() && round <= chunks; ++round) {
    for (Lane &lane : lanes) {
      if (round < chunks) {
        ASHLAR_RETURN_IF_ERROR(post(lane, round));
      }
    }
    if (round == 0) { // beside the first messages
      for (const Copy &copy : local) {
        if (copy.from == nullptr) {
          zeroView(copy.to, copy.toView, 0, copy.toView.bytes());
        } else {
          copyView(copy.from, copy.fromView, copy.to, copy.toView, 0, copy.toView.bytes());
        }
      }
    }
    for (Lane &lane : lanes) {
      if (round >= 1) {
        ASHLAR_RETURN_IF_ERROR(take(lane, round - 1));
      }
    }
  }
  for (Lane &lane : lanes) {
    ASHLAR_RETURN_IF_ERROR(lane.streams.drain());
  }
  return Status();
}

Status HostsMovement::post(Lane &lane, size_t chunk) {
  for (size_t host : otherHosts) {
    const size_t index = chunk % kSlots * group.hosts() + host;
    const Range out = lane.outgoing[host].chunk(chunk, staging.step()), in = lane.incoming[host].chunk(chunk, staging.step());
    ASHLAR_RETURN_IF_ERROR(lane.streams.waitSent(host, lane.sent[index]));
    if (out.size() != 0) {
      const Pieces &pieces = outgoing[host].pieces;
      char *place = pieces.place(out.begin, out.end);
      if (place == nullptr) {
        place = staging.at(lane.sendBuffers[index]);
        pieces.pack(out.begin, out.end, place);
      }
      lane.sent[index] = lane.streams.send(host, Part{place, out.size()});
    }
    if (in.size() != 0) {
      char *place = incoming[host].pieces.place(in.begin, in.end);
      place = place != nullptr ? place : staging.at(lane.receiveBuffers[index]);
      lane.received[index] = lane.streams.receive(host, Part{place, in.size()});
    }
  }
  return Status();
}

Status HostsMovement::take(Lane &lane, size_t chunk) {
  for (size_t host : otherHosts) {
    const size_t index = chunk % kSlots * group.hosts() + host;
    const Range in = lane.incoming[host].chunk(chunk, staging.step());
    if (in.size() == 0) {
      continue;
    }
    ASHLAR_RETURN_IF_ERROR(lane.streams.waitReceived(host, lane.received[index]));
    const Traffic &traffic = incoming[host];
    if (traffic.pieces.place(in.begin, in.end) == nullptr) {
      traffic.pieces.unpack(in.begin, in.end, staging.at(lane.receiveBuffers[index]));
    }
    traffic.pieces.forEach(in.begin, in.end, [&](const Pieces::Piece &piece, size_t from, size_t until) {
      for (const Pieces::Piece &copy : traffic.copies[static_cast<size_t>(&piece - traffic.pieces.list.data())]) {
        copyView(piece.base, piece.view, copy.base, copy.view, from, until);
      }
    });
  }
  return Status();
}

} // namespace ashlar::rt
