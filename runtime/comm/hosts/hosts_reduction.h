// SPDX-License-Identifier: Apache-2.0
//
// Reductions, and broadcasts, of a group between hosts. Each host combines what its members have, over shared memory, sends that to the
// host that owns a part of the result, and gets the results of the others: for H hosts it sends 2 (H-1)/H of a tensor, and half of that in
// a reduce-scatter, however many ranks it has. Of two hosts, and of few bytes, each host sends all to all others and computes the result by
// itself: one message after the other less, the same bytes between two.

#ifndef ASHLAR_RUNTIME_COMM_HOSTS_HOSTS_REDUCTION_H
#define ASHLAR_RUNTIME_COMM_HOSTS_HOSTS_REDUCTION_H

#include "runtime/comm/hosts/host_streams.h"
#include "runtime/comm/hosts/partial_tree.h"
#include "runtime/comm/placed_tensors.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// One group of a collective that reduces, or that broadcasts: the reduction of one input.
class HostsReduction {
public:
  HostsReduction(const CollectiveContext &context, const ashlar_rt_collective_desc &desc, const Reducer &reducer,
                 const std::vector<PlacedTensor> &tensors, const Group &group);

  // Assumes that the inputs of all members on this host are there. Results are in the outputs of all of them once the processes that serve
  // columns are done.
  Status run();

private:
  // A chunk under way: its staging buffers, and the numbers of what was posted for it.
  struct Slot {
    std::vector<size_t> outgoing;                // buffers, by host and own leaf
    std::vector<size_t> contributions;           // buffers, by leaf
    std::vector<const char *> leaves;            // what is combined
    std::vector<uint64_t> sent, received, taken; // by host: leaves to it, leaves from it, results from it
  };

  // A column, and what goes through it.
  struct Lane {
    HostColumn streams;
    std::vector<Range> ranges; // by host: what it owns, of a run of its own in a reduce-scatter, of the result else
    Slot slots[kSlots];
    size_t scratch = 0; // buffer of a host that has all inputs, for results that others own
  };

  void addInputs(const ashlar_rt_collective_desc &desc, const std::vector<PlacedTensor> &tensors);
  void addOutputs(const std::vector<PlacedTensor> &tensors);
  void addLanes(const CollectiveContext &context, size_t inputBytes);
  void addBuffers(Slot &slot);

  // Buffers of the process that has most.
  size_t mostBuffers() const;

  // Whether all inputs lie on a host: it computes the whole result by itself.
  bool hasAll(size_t host) const { return tree.leaves().size() == 1 && tree.leaves()[0].host == host; }

  // The chunk of what a host owns.
  Range owned(const Lane &lane, size_t host, size_t chunk) const { return lane.ranges[host].chunk(chunk, staging.step()); }

  // Returns leaf `leaf`, of this host, for bytes of what `host` owns: where they lie, or combined into `place`.
  const char *combineLeaf(size_t leaf, size_t host, Range range, char *place);

  // The phases of a chunk: to send leaves, to combine leaves and send results, and to take results.
  Status sendLeaves(Lane &lane, size_t chunk);
  Status combine(Lane &lane, size_t chunk);
  void shareResults(Lane &lane, size_t chunk);
  Status takeResults(Lane &lane, size_t chunk);

  // Combines leaves into the outputs of all that get them.
  void reduceInto(Range range, const std::vector<const char *> &leaves);

  HostGroup group;
  Reducer reducer;
  bool scatters;
  bool isWhole = false; // each host computes the whole result
  PartialTree tree;
  std::vector<size_t> ownLeaves, otherHosts;
  std::vector<std::vector<std::vector<Pieces>>> inputs; // by host whose targets they cover (of a reduce-scatter), leaf, and input of it
  Pieces outputs;                                       // in the first member that gets them
  std::vector<std::vector<char *>> receivers;           // by piece of outputs: where its first byte goes
  StagingPlaces staging;
  std::vector<Lane> lanes;
  size_t chunks = 0;
  std::vector<const char *> bases; // of the inputs of a leaf, while it is combined
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_HOSTS_HOSTS_REDUCTION_H
