// SPDX-License-Identifier: Apache-2.0
//
// The cost of a collective, the time of its messages over the links of a mesh; and the cost of computation. The numbers stand on dist.mesh
// and on the module; their source is unknown here. Times are integers, so that plans of equal cost compare equal on every machine.

#ifndef ASHLAR_PASSES_ANALYSIS_COSTS_H
#define ASHLAR_PASSES_ANALYSIS_COSTS_H

#include "dialects/dist/dist.h"
#include "runtime/abi/message_time.h"

#include <array>
#include <optional>

namespace ashlar::analysis {

// The cost of messages: the time of an empty one, and the rate of bytes. The default, for a mesh without costs, makes a byte a nanosecond
// and a message free: then the fastest plan is the one that sends the fewest bytes.
struct MessageCost {
  int64_t latencyNs = 0;
  int64_t bytesPerUs = 1000;

  bool operator==(const MessageCost &other) const { return latencyNs == other.latencyNs && bytesPerUs == other.bytesPerUs; }

  // Returns whether it is in no respect slower than `other`.
  bool isNotSlowerThan(const MessageCost &other) const { return latencyNs <= other.latencyNs && bytesPerUs >= other.bytesPerUs; }

  // Returns a cost as slow, or as fast, as the slower or faster of both in each respect.
  MessageCost worse(const MessageCost &other) const {
    return {std::max(latencyNs, other.latencyNs), std::min(bytesPerUs, other.bytesPerUs)};
  }
  MessageCost better(const MessageCost &other) const {
    return {std::min(latencyNs, other.latencyNs), std::max(bytesPerUs, other.bytesPerUs)};
  }
};

// The kinds of collectives that send something, in their order.
constexpr CollectiveKind kSendingKinds[] = {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                            CollectiveKind::AllGather, CollectiveKind::Permute,       CollectiveKind::Broadcast,
                                            CollectiveKind::Halo};

// A link: the cost of its messages, and the costs of the kinds of collectives that are slower. All statements about a link with one cost
// hold for each kind by itself.
struct Link {
  int64_t latencyNs = 0; // these two: of the kinds that have no cost of their own
  int64_t bytesPerUs = 1000;
  bool movesBeside = false; // moves data while the devices compute; else it keeps them busy
  std::array<std::optional<MessageCost>, getMaxEnumValForCollectiveKind() + 1> own = {}; // by kind

  // Returns the cost of messages of a kind.
  MessageCost of(CollectiveKind kind) const {
    const std::optional<MessageCost> &cost = own[static_cast<size_t>(kind)];
    return cost ? *cost : MessageCost{latencyNs, bytesPerUs};
  }
  void set(CollectiveKind kind, const MessageCost &cost) { own[static_cast<size_t>(kind)] = cost; }

  // Whether messages of each kind cost the same.
  bool operator==(const Link &other) const;

  // Returns true when it is for no kind and in no respect slower than `other`, and for one in one faster.
  bool isFasterThan(const Link &other) const;

  // Returns a link as slow as the slower of both for each kind in each respect. Traffic over both overlaps computation where one of them
  // does: that one is a network, and the time is spent there.
  Link worse(const Link &other) const;

  // Returns the cost of the fastest messages of any kind: in each respect the minimum over the kinds.
  MessageCost fastest() const;
};

// The links of a mesh, and the hosts that they follow from.
struct MeshLinks {
  llvm::SmallVector<Link> axes; // one each
  dist::HostsAttr hosts = {};   // null: nothing is known but the links
  llvm::SmallVector<int64_t> deviceIds = {};
};

// Returns the links of a mesh, one an axis. `costs` may be null.
llvm::SmallVector<Link> axisLinks(dist::MeshAttr mesh, dist::CostsAttr costs);
MeshLinks linksOf(dist::MeshOp mesh);

// Groups of devices as they lie on hosts.
struct GroupsOnHosts {
  int64_t members = 1;             // of each
  int64_t hosts = 1;               // of the group on most
  int64_t groups = 0, devices = 0; // of the host that has most: groups that are on other hosts too, and their members
};

// Returns how the groups over axes of a mesh lie. Rank r is on host r / ranksPerHost. `deviceIds`: as on dist.mesh, may be empty.
// `firstRank`: of the mesh, a stage of a pipeline.
//   mesh 3, 2 ranks a host  ->  3 members on 2 hosts; a host has 1 group with 2 of them
GroupsOnHosts groupsOnHosts(int64_t ranksPerHost, int64_t devicesPerRank, llvm::ArrayRef<int64_t> axisSizes,
                            llvm::ArrayRef<int64_t> deviceIds, llvm::ArrayRef<int64_t> axes, int64_t firstRank = 0);

// Returns the bytes that a host sends to others for its members of all groups, with operands of so many bytes on a device; of a halo: what
// the device at the border sends. Of H hosts each sends 2 (H-1)/H of a tensor that is reduced, once for each group, however many members
// it has there; a broadcast sends as much, or the tensor between two.
int64_t hostBytes(CollectiveKind kind, int64_t operandBytes, const GroupsOnHosts &groups);

// Returns the link of each axis of a mesh on hosts. It is that between hosts when a group over the axis has devices on two. What a device
// sends then has the rate at which what its host sends (hostBytes) goes through the host's adapters; with rails through the adapters of
// these ranks, and a message between two rails goes over a link of the host first. No faster than within a host. It is that between pods
// when a group has devices in two: then the bytes of a pod, counted like the bytes of a host, go through the pod's uplinks, no faster than
// between hosts. Where hosts send at once, a message of a collective (collectiveMessages) has its share of the time of those between hosts.
//   mesh 2 x 4, 4 ranks and 1 adapter a host, 1000 bytes/us   ->  {250 bytes/us: four groups share it; within a host}
//   mesh 8, 4 ranks and 1 adapter a host                      ->  {1750 bytes/us: 2 * 7/8 of a tensor where the host sends 2 * 1/2 of it}
//   mesh 8, 2 ranks and adapters a host, 2 hosts and 1 uplink a pod, all of 1000 bytes/us  ->  {1750 bytes/us: 2 * 1/2 by the uplink}
//   mesh 4, 2 ranks a host, 20 ms between hosts, at once      ->  {5 ms for each of the 4 messages of an all-reduce, which take 20 ms}
llvm::SmallVector<Link> hostLinks(dist::HostsAttr hosts, llvm::ArrayRef<int64_t> axisSizes, llvm::ArrayRef<int64_t> deviceIds);

// Returns the link that messages between two stages of a pipeline go by, each of `devices` ranks, from every rank to the one of the same
// place in the other stage: that between hosts, shared by all that send, when any two of these are on two hosts; that between pods in the
// same way.
//   stages of 2 ranks, 2 ranks a host  ->  between hosts;   4 ranks a host, stages 0 and 1  ->  within a host
Link stageLink(dist::HostsAttr hosts, int64_t devices, int64_t from, int64_t to);

// Returns the time of a message of so many bytes from a rank to the one of the same place in another stage.
int64_t stageMessagePs(int64_t bytes, const Link &link);

// Returns the attribute of links, one an axis; axisLinks reads it.
dist::CostsAttr costsOf(mlir::MLIRContext *context, llvm::ArrayRef<Link> links);

// Returns the link that a group over several axes goes by: as slow as the slowest of theirs. `links`: one an axis of the mesh.
Link groupLink(dist::MeshAttr mesh, llvm::ArrayRef<Link> links, llvm::ArrayRef<mlir::StringAttr> axes);

// Returns the number of consecutive messages in a collective of n ranks: each rank sends as many bytes as in a ring, but to partners at
// doubling distance, as the best known algorithms do. So one reduction, scatter or gather over two axes of equal links is never slower than
// two of its kind over one each.
//   all_reduce 2 log2(n); all_gather and reduce_scatter log2(n), rounded up; all_to_all n-1; permute 1; slice 0. The messages of a halo
//   follow from its runs (HaloTraffic).
int64_t collectiveMessages(CollectiveKind kind, int64_t groupSize);

using rt::kMostTimePs;

// Returns messages * latency + bytes / rate, in picoseconds (rt::messageTimePs).
int64_t messageTimePs(int64_t messages, int64_t bytes, const MessageCost &cost);

// Returns the time of the messages of a collective, of any kind but a halo.
int64_t collectiveTimePs(CollectiveKind kind, int64_t operandBytes, int64_t groupSize, const Link &link);

// The traffic of a collective: the messages that follow one another, and the bytes that a device sends.
struct Traffic {
  int64_t messages, bytes;
};

// Returns the traffic of `op`. Assumes that it lies in a module with a mesh.
Traffic trafficOf(dist::CollectiveOpInterface op);

// Returns the time of `op` over the links of its mesh. Assumes that it lies in a module with a mesh.
int64_t collectiveTimePs(dist::CollectiveOpInterface op);

// Returns the time of a collective if a device sent so many bytes in it, of elements of another type for instance.
int64_t collectiveTimePs(dist::CollectiveOpInterface op, int64_t bytes);

// Whether the links that `op` goes by move data while the devices compute. Assumes that it lies in a module with a mesh.
bool movesBeside(dist::CollectiveOpInterface op);

// The cost of a halo: the bytes of the device that sends most, and the time of its messages.
struct HaloCost {
  int64_t bytes, timePs;
};

// Returns the cost of the halo of a split window on local operands of a type, whose length along the dim does not count.
HaloCost haloCost(dist::MeshAttr mesh, const dist::SplitWindow &window, mlir::RankedTensorType operand, const Link &link);

// The largest bucket that is made of itself.
constexpr int64_t kMostBucketBytes = 64000000;

// Returns the bytes of whole tensors (summed, gathered or to be scattered) from which on the latency of one collective of n ranks is at
// most a twentieth of its time; at most kMostBucketBytes. Example: all_reduce of 4 ranks, links of 5 us and 1200 bytes/us: 20 us of
// messages, in which 24000 bytes could be sent; 19 times that are sent for 456000 * 4 / 6 = 304000 bytes.
int64_t bucketBytes(CollectiveKind kind, int64_t groupSize, const Link &link);

// The work of an op: rough counts of additions, multiplications and the like.
struct Work {
  int64_t flops = 0;                  // on f32
  int64_t narrowFlops = 0;            // on bf16 and f16
  std::optional<RateClass> rateClass; // of a product, convolution or attention: decides its rate

  // Adds work of another op. Assumes that both have no class: DeviceRates::atFullRate.
  Work &operator+=(const Work &other);
};

// The rates of library calls from some size on.
struct ShapeRate {
  int64_t from = 1;
  int64_t flopsPerUs = INT64_MAX, narrowFlopsPerUs = INT64_MAX;
};

// The rates of a device, a microsecond. The default, for a module without them, makes an operation free and a byte a nanosecond.
struct DeviceRates {
  int64_t flopsPerUs = INT64_MAX;       // additions and multiplications of f32
  int64_t narrowFlopsPerUs = INT64_MAX; // of bf16 and f16 in products
  int64_t bytesPerUs = 1000;            // of memory, read or written
  int64_t launchNs = 0;                 // that each kernel and library call takes beside its work
  // By the sizes of RateClass, rising; sizes below the first entry have its rate. Empty: all have the rates above.
  // Attentions without a table have the rates of products.
  llvm::SmallVector<ShapeRate, 0> products = {}, convolutions = {}, attentions = {};

  // Returns the table of a kind; may be empty.
  llvm::ArrayRef<ShapeRate> tableOf(RateClass::Kind kind) const;

  // Returns work as so many operations at the rates above as take as long: its class is then accounted for.
  //   a product of 1000 operations, of a class with a quarter of the rate  ->  4000 operations
  Work atFullRate(const Work &work) const;

  // Returns the time of arithmetic beside the memory that it needs, in picoseconds: the longer of both. At most kMostTimePs.
  int64_t timePs(const Work &work, int64_t bytes) const;
  int64_t timePs(int64_t flops, int64_t narrowFlops, int64_t bytes) const { return timePs({flops, narrowFlops, std::nullopt}, bytes); }

  // Returns the time of a kernel or library call: that, and the launch. Nothing where there is nothing to do.
  int64_t callPs(const Work &work, int64_t bytes) const;
};

// Returns whether an op is an instruction of its own, outside generated kernels: a product, a convolution, a look-up of rows, an update of
// some, an op without computation.
bool runsAlone(mlir::Operation *op);

// Returns the operand whose bytes the result of an op takes, with some elements replaced (UpdatingOpInterface): neither of them is moved.
// Nothing: the op has none.
std::optional<unsigned> findUpdated(mlir::Operation *op);

// Returns the work of an op on tensors of these types, which may be local types instead of its own. None where it only moves data.
//   nn.matmul (m, k) x (k, n): 2 m n k;   nn.add of n elements: n;   nn.exp: 16 n
Work workOf(mlir::Operation *op, llvm::ArrayRef<mlir::RankedTensorType> operands, llvm::ArrayRef<mlir::RankedTensorType> results);

// Returns the time of an op of one device's program, run alone: of a collective over the links of the mesh, of others the longer of
// computation and memory traffic; with a launch where no kernel would hold it.
int64_t opTimePs(mlir::Operation *op, const DeviceRates &rates);

// Returns the time of an op that is no collective, on tensors of these types.
int64_t opTimePs(mlir::Operation *op, llvm::ArrayRef<mlir::RankedTensorType> operands, llvm::ArrayRef<mlir::RankedTensorType> results,
                 const DeviceRates &rates);

// Returns the rates that stand on a module (kDeviceAttr), or the default.
DeviceRates findDeviceRates(mlir::ModuleOp module);

// Returns the attribute of rates; findDeviceRates reads it.
dist::DeviceAttr deviceOf(mlir::MLIRContext *context, const DeviceRates &rates);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_COSTS_H
