// SPDX-License-Identifier: Apache-2.0
//
// What collectives and computing cost.

#include "dialects/dist/costs.h"

#include "dialects/support/element_type.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::dist {
namespace {

// Returns the operations that an element of this cost takes, a rough count.
int64_t flopsOf(Cost cost) {
  switch (cost) {
  case Cost::Free:
    return 0;
  case Cost::Simple:
    return 1;
  case Cost::Contraction:
    return 2;
  case Cost::Division:
    return 8;
  case Cost::Function:
    return 16;
  case Cost::LongFunction:
    return 32;
  case Cost::Random:
    return 64;
  }
  llvm_unreachable("unknown cost");
}

// Returns the link that a collective of a module with a mesh goes by.
Link linkOf(CollectiveOpInterface op) {
  MeshOp mesh = findMesh(op->getParentOfType<ModuleOp>());
  return groupLink(mesh.getMesh(), axisLinks(mesh.getMesh(), mesh.getCostsAttr()), toAxisList(op.getAxes()));
}

} // namespace

SmallVector<Link> axisLinks(MeshAttr mesh, CostsAttr costs) {
  SmallVector<Link> links(mesh.getAxes().size());
  if (costs) {
    for (auto [link, latency, rate] : llvm::zip_equal(links, costs.getLatencyNs(), costs.getBytesPerUs())) {
      link.latencyNs = latency;
      link.bytesPerUs = rate;
    }
    llvm::for_each(costs.getBeside(), [&](int64_t axis) { links[axis].movesBeside = true; });
  }
  return links;
}

Link groupLink(MeshAttr mesh, ArrayRef<Link> links, ArrayRef<StringAttr> axes) {
  Link link = links[*mesh.findAxis(axes.front())];
  for (StringAttr axis : axes) {
    link = link.worse(links[*mesh.findAxis(axis)]);
  }
  return link;
}

int64_t collectiveMessages(CollectiveKind kind, int64_t groupSize) {
  switch (kind) {
  case CollectiveKind::Slice:
    return 0;
  case CollectiveKind::AllReduce:
    return 2 * static_cast<int64_t>(llvm::Log2_64_Ceil(groupSize));
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    return llvm::Log2_64_Ceil(groupSize);
  case CollectiveKind::AllToAll:
  case CollectiveKind::Broadcast:
    return groupSize - 1;
  case CollectiveKind::Permute:
    return 1;
  case CollectiveKind::Halo:
    llvm_unreachable("the messages of a halo follow from its runs");
  }
  llvm_unreachable("unknown collective");
}

int64_t messageTimePs(int64_t messages, int64_t bytes, const Link &link) {
  constexpr int64_t kPsPerNs = 1000, kPsPerUs = 1000 * kPsPerNs;
  // Rounded up, so that two collectives in the place of one never seem to be faster because they are rounded twice.
  __int128 sending = (__int128(bytes) * kPsPerUs + link.bytesPerUs - 1) / link.bytesPerUs;
  return static_cast<int64_t>(std::min(messages * __int128(link.latencyNs) * kPsPerNs + sending, __int128(kMostTimePs)));
}

int64_t collectiveTimePs(CollectiveKind kind, int64_t operandBytes, int64_t groupSize, const Link &link) {
  return messageTimePs(collectiveMessages(kind, groupSize), collectiveBytes(kind, operandBytes, groupSize), link);
}

int64_t collectiveTimePs(CollectiveOpInterface op) {
  Link link = linkOf(op);
  if (auto halo = dyn_cast<HaloOp>(op.getOperation())) { // as haloCost
    return messageTimePs(haloTraffic(axisSizes(halo), haloOf(halo)).mostMessages, collectiveBytes(op), link);
  }
  int64_t group = findMesh(op->getParentOfType<ModuleOp>()).getMesh().groupSize(toAxisList(op.getAxes()));
  return collectiveTimePs(op.getCollectiveKind(), operandBytes(op), group, link);
}

bool movesBeside(CollectiveOpInterface op) {
  return linkOf(op).movesBeside;
}

HaloCost haloCost(MeshAttr mesh, const SplitWindow &window, RankedTensorType operand, const Link &link) {
  HaloTraffic traffic = haloTraffic(axisSizes(mesh, window.axes), *window.halo);
  int64_t bytes = haloBytes(operand, window.dim, traffic.mostSent);
  return {bytes, messageTimePs(traffic.mostMessages, bytes, link)};
}

int64_t bucketBytes(CollectiveKind kind, int64_t groupSize, const Link &link) {
  constexpr int64_t kLatencyShare = 20, kNsPerUs = 1000;
  // What is sent in the time of all messages is to be one part of these.
  __int128 sent = __int128(kLatencyShare - 1) * collectiveMessages(kind, groupSize) * link.latencyNs * link.bytesPerUs / kNsPerUs;
  // A device sends 2 (n-1)/n of the whole tensor in an all-reduce, and (n-1)/n of it in the others.
  int64_t rounds = kind == CollectiveKind::AllReduce ? 2 : 1;
  return groupSize == 1 ? 0 : static_cast<int64_t>(std::min<__int128>(sent * groupSize / (rounds * (groupSize - 1)), kMostBucketBytes));
}

int64_t DeviceRates::timePs(int64_t flops, int64_t narrowFlops, int64_t bytes) const {
  constexpr __int128 kPsPerUs = 1000000;
  __int128 computing = flops * kPsPerUs / flopsPerUs + narrowFlops * kPsPerUs / narrowFlopsPerUs;
  __int128 moving = bytes * kPsPerUs / bytesPerUs;
  return static_cast<int64_t>(std::min(std::max(computing, moving), __int128(kMostTimePs)));
}

Work &Work::operator+=(const Work &other) {
  auto add = [](int64_t &sum, int64_t more) { sum = static_cast<int64_t>(std::min<__int128>(__int128(sum) + more, INT64_MAX)); };
  add(flops, other.flops);
  add(narrowFlops, other.narrowFlops);
  return *this;
}

// Elements are the products that a contraction adds up, else those of the largest tensor.
Work workOf(Operation *op, ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType> results) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  if (!compute || results.empty()) {
    return {};
  }
  __int128 elements = 0;
  auto add = [&](RankedTensorType type) { elements = std::max<__int128>(elements, type.getNumElements()); };
  llvm::for_each(results, add);
  if (!isa<IndexingOpInterface>(op)) {
    llvm::for_each(operands, add);
  }
  if (auto contraction = dyn_cast<ContractionOpInterface>(op)) {
    elements = contraction.countProducts(operands, results);
  }
  int64_t flops = static_cast<int64_t>(std::min<__int128>(elements, INT64_MAX / 64)) * flopsOf(compute.getCost());
  bool isNarrow = llvm::all_of(operands, [](RankedTensorType type) { return type.getElementTypeBitWidth() == 16; });
  return isNarrow ? Work{0, flops} : Work{flops, 0};
}

int64_t opTimePs(Operation *op, const DeviceRates &rates) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    return collectiveTimePs(collective);
  }
  auto types = [](TypeRange range) { return llvm::map_to_vector(range, [](Type type) { return cast<RankedTensorType>(type); }); };
  Work work = workOf(op, types(op->getOperandTypes()), types(op->getResultTypes()));
  return rates.timePs(work.flops, work.narrowFlops, totalByteSize(op->getOperandTypes()) + totalByteSize(op->getResultTypes()));
}

DeviceRates findDeviceRates(ModuleOp module) {
  auto attribute = module->getAttrOfType<DeviceAttr>(kDeviceAttr);
  return attribute ? DeviceRates{attribute.getFlopsPerUs(), attribute.getNarrowFlopsPerUs(), attribute.getBytesPerUs()} : DeviceRates();
}

} // namespace ashlar::dist
