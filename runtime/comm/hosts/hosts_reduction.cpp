// SPDX-License-Identifier: Apache-2.0
//
// Reductions and broadcasts between hosts. A process serves columns of what each host owns. Three chunks of a column are in different
// phases at a time, in the same order on both sides of a stream: leaves of chunk k are sent, k-1 is combined, results of k-2 are taken.

#include "runtime/comm/hosts/hosts_reduction.h"

#include "runtime/abi/memory_sizes.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

// The largest result that each host computes by itself where there are more than two.
constexpr size_t kWholeBytes = 16 << 10;

size_t resultBytes(const std::vector<PlacedTensor> &tensors) {
  size_t sum = 0;
  for (const PlacedTensor &tensor : tensors) {
    sum += tensor.shape.outBytes();
  }
  return sum;
}

View whole(size_t bytes) {
  return View{0, bytes, bytes, 1};
}

} // namespace

HostsReduction::HostsReduction(const CollectiveContext &context, const ashlar_rt_collective_desc &desc, const Reducer &reducer,
                               const std::vector<PlacedTensor> &tensors, const Group &members)
    : group(context, members), reducer(reducer), scatters(desc.kind == ASHLAR_RT_REDUCE_SCATTER), otherHosts(group.others()),
      staging(context.staging) {
  std::vector<size_t> hostOf;
  for (int member = 0; member < static_cast<int>(group.numMembers()); ++member) {
    hostOf.push_back(group.hostOf(member));
  }
  if (desc.kind == ASHLAR_RT_BROADCAST) {
    hostOf = {group.hostOf(static_cast<int>(desc.root))};
  }
  tree = PartialTree(hostOf, context.keepsBits);
  isWhole = !scatters && (group.hosts() == 2 || resultBytes(tensors) <= kWholeBytes);
  addInputs(desc, tensors);
  addOutputs(tensors);
  addLanes(context, inputBytes(tensors));
}

void HostsReduction::addInputs(const ashlar_rt_collective_desc &desc, const std::vector<PlacedTensor> &tensors) {
  for (size_t leaf = 0; leaf < tree.leaves().size(); ++leaf) {
    if (tree.leaves()[leaf].host == group.self()) {
      ownLeaves.push_back(leaf);
    }
  }
  inputs.resize(scatters ? group.hosts() : 1);
  for (size_t host = 0; host < inputs.size(); ++host) {
    inputs[host].resize(tree.leaves().size());
    for (size_t leaf : ownLeaves) {
      for (int input : tree.leaves()[leaf].inputs) {
        const char *arena = group.arena(desc.kind == ASHLAR_RT_BROADCAST ? static_cast<int>(desc.root) : input);
        Pieces pieces;
        for (int target : scatters ? group.members(host) : std::vector<int>{0}) {
          for (const PlacedTensor &tensor : tensors) {
            const CollectiveShape &shape = tensor.shape;
            pieces.add(const_cast<char *>(arena) + tensor.in.offset, shape.reduces() ? shape.reducedView(target) : whole(shape.inBytes()));
          }
        }
        inputs[host][leaf].push_back(std::move(pieces));
      }
    }
  }
  bases.resize(group.numMembers());
}

void HostsReduction::addOutputs(const std::vector<PlacedTensor> &tensors) {
  const std::vector<int> &members = group.members(group.self());
  for (int target : scatters ? members : std::vector<int>{members[0]}) {
    for (const PlacedTensor &tensor : tensors) {
      outputs.add(group.arena(target) + tensor.out.offset, whole(tensor.shape.outBytes()));
      receivers.emplace_back();
      for (int receiver : scatters ? std::vector<int>{target} : members) {
        receivers.back().push_back(group.arena(receiver) + tensor.out.offset);
      }
    }
  }
}

void HostsReduction::addLanes(const CollectiveContext &context, size_t inputBytes) {
  const size_t ofMember = scatters ? outputs.bytes / group.members(group.self()).size() : outputs.bytes;
  size_t longest = 0;
  for (size_t column : group.columns()) {
    Lane lane{HostColumn(context, group, column), {}, {}};
    for (size_t host = 0; host < group.hosts(); ++host) {
      Range range{0, scatters ? ofMember * group.members(host).size() : ofMember};
      range = scatters || isWhole ? range : range.part(host, group.hosts());
      lane.ranges.push_back(range.part(column, group.numColumns()));
      longest = std::max(longest, lane.ranges.back().size());
    }
    for (Slot &slot : lane.slots) {
      addBuffers(slot);
    }
    lane.scratch = staging.add();
    lanes.push_back(std::move(lane));
  }
  staging.share(hostsStaging(group.numMembers(), inputBytes), mostBuffers(), inputBytes);
  chunks = (longest + staging.step() - 1) / staging.step();
}

size_t HostsReduction::mostBuffers() const {
  size_t mostLeaves = 0; // of a host
  for (size_t host = 0; host < group.hosts(); ++host) {
    mostLeaves = std::max<size_t>(mostLeaves, std::count_if(tree.leaves().begin(), tree.leaves().end(),
                                                            [&](const PartialTree::Leaf &leaf) { return leaf.host == host; }));
  }
  return group.mostColumns() * (1 + kSlots * (tree.leaves().size() + (isWhole ? 0 : group.hosts() * mostLeaves)));
}

void HostsReduction::addBuffers(Slot &slot) {
  const size_t hosts = group.hosts(), leaves = tree.leaves().size();
  for (size_t leaf = 0; leaf < leaves; ++leaf) {
    slot.contributions.push_back(staging.add());
  }
  for (size_t host = 0; !isWhole && host < hosts; ++host) {
    for (size_t leaf = 0; leaf < ownLeaves.size(); ++leaf) {
      slot.outgoing.push_back(host == group.self() ? 0 : staging.add());
    }
  }
  slot.leaves.resize(leaves);
  slot.sent.resize(hosts);
  slot.received.resize(hosts);
  slot.taken.resize(hosts);
}

Status HostsReduction::run() {
  for (size_t round = 0; !lanes.empty() && round < chunks + 2; ++round) {
    for (Lane &lane : lanes) {
      if (round < chunks) {
        ASHLAR_RETURN_IF_ERROR(sendLeaves(lane, round));
      }
      if (round >= 1 && round - 1 < chunks) {
        ASHLAR_RETURN_IF_ERROR(combine(lane, round - 1));
      }
      if (round >= 2) {
        ASHLAR_RETURN_IF_ERROR(takeResults(lane, round - 2));
      }
    }
  }
  for (Lane &lane : lanes) { // the results that others get lie in outputs
    ASHLAR_RETURN_IF_ERROR(lane.streams.drain());
  }
  return Status();
}

const char *HostsReduction::combineLeaf(size_t leaf, size_t host, Range range, char *place) {
  const std::vector<Pieces> &of = inputs[scatters ? host : 0][leaf];
  if (const char *found = of.size() == 1 ? of[0].place(range.begin, range.end) : nullptr) {
    return found;
  }
  of[0].forEach(range.begin, range.end, [&](const Pieces::Piece &piece, size_t from, size_t until) {
    const size_t index = static_cast<size_t>(&piece - of[0].list.data());
    for (size_t input = 0; input < of.size(); ++input) {
      bases[input] = of[input].list[index].base;
    }
    const View &view = piece.view;
    while (from < until) {
      const size_t inBlock = from % view.block, length = std::min(until - from, view.block - inBlock);
      reducer.run(bases.data(), of.size(), view.offset + from / view.block * view.stride + inBlock, &place, 1,
                  piece.first + from - range.begin, length);
      from += length;
    }
  });
  return place;
}

Status HostsReduction::sendLeaves(Lane &lane, size_t chunk) {
  Slot &slot = lane.slots[chunk % kSlots];
  for (size_t host : otherHosts) { // the slot's buffers are those of an earlier chunk
    ASHLAR_RETURN_IF_ERROR(lane.streams.waitSent(host, slot.sent[host]));
  }
  const Range own = owned(lane, group.self(), chunk);
  for (size_t leaf : ownLeaves) {
    if (own.size() != 0) {
      slot.leaves[leaf] = combineLeaf(leaf, group.self(), own, staging.at(slot.contributions[leaf]));
    }
  }
  for (size_t host : otherHosts) {
    const Range range = owned(lane, host, chunk);
    for (size_t i = 0; range.size() != 0 && i < ownLeaves.size(); ++i) {
      const size_t leaf = ownLeaves[i];
      const char *data =
          isWhole ? slot.leaves[leaf] : combineLeaf(leaf, host, range, staging.at(slot.outgoing[host * ownLeaves.size() + i]));
      slot.sent[host] = lane.streams.send(host, Part{const_cast<char *>(data), range.size()});
    }
    for (size_t leaf = 0; own.size() != 0 && leaf < tree.leaves().size(); ++leaf) {
      if (tree.leaves()[leaf].host == host) {
        char *place = staging.at(slot.contributions[leaf]);
        slot.leaves[leaf] = place;
        slot.received[host] = lane.streams.receive(host, Part{place, own.size()});
      }
    }
  }
  return Status();
}

Status HostsReduction::combine(Lane &lane, size_t chunk) {
  Slot &slot = lane.slots[chunk % kSlots];
  for (size_t host : otherHosts) {
    ASHLAR_RETURN_IF_ERROR(lane.streams.waitReceived(host, slot.received[host]));
    if (isWhole) { // what is being sent may lie where the result goes
      ASHLAR_RETURN_IF_ERROR(lane.streams.waitSent(host, slot.sent[host]));
    }
  }
  if (const Range own = owned(lane, group.self(), chunk); own.size() != 0) {
    reduceInto(own, slot.leaves);
  }
  if (!scatters && !isWhole) {
    shareResults(lane, chunk);
  }
  return Status();
}

void HostsReduction::shareResults(Lane &lane, size_t chunk) {
  Slot &slot = lane.slots[chunk % kSlots];
  const Range own = owned(lane, group.self(), chunk);
  auto post = [&](Range range, auto &&postPart) {
    outputs.forEach(range.begin, range.end,
                    [&](const Pieces::Piece &piece, size_t from, size_t until) { postPart(Part{piece.base + from, until - from}); });
  };
  for (size_t host : otherHosts) {
    if (!hasAll(host)) {
      post(own, [&](Part part) { lane.streams.send(host, part); });
    }
    if (!hasAll(group.self())) {
      post(owned(lane, host, chunk), [&](Part part) { slot.taken[host] = lane.streams.receive(host, part); });
    }
  }
}

Status HostsReduction::takeResults(Lane &lane, size_t chunk) {
  Slot &slot = lane.slots[chunk % kSlots];
  for (size_t host : otherHosts) {
    const Range range = scatters || isWhole ? Range{} : owned(lane, host, chunk);
    if (range.size() == 0) {
      continue;
    }
    if (hasAll(group.self())) {
      reduceInto(range, {combineLeaf(/*leaf=*/0, host, range, staging.at(lane.scratch))});
      continue;
    }
    ASHLAR_RETURN_IF_ERROR(lane.streams.waitReceived(host, slot.taken[host]));
    outputs.forEach(range.begin, range.end, [&](const Pieces::Piece &piece, size_t from, size_t until) {
      const std::vector<char *> &to = receivers[static_cast<size_t>(&piece - outputs.list.data())];
      for (size_t i = 1; i < to.size(); ++i) {
        std::memcpy(to[i] + from, piece.base + from, until - from);
      }
    });
  }
  return Status();
}

void HostsReduction::reduceInto(Range range, const std::vector<const char *> &leaves) {
  outputs.forEach(range.begin, range.end, [&](const Pieces::Piece &piece, size_t from, size_t until) {
    const std::vector<char *> &to = receivers[static_cast<size_t>(&piece - outputs.list.data())];
    tree.run(reducer, leaves.data(), piece.first + from - range.begin, to.data(), to.size(), from, until - from);
  });
}

} // namespace ashlar::rt
