// SPDX-License-Identifier: Apache-2.0
//
// What collectives and computing cost.

#include "passes/analysis/costs.h"

#include "dialects/support/element_type.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::analysis {
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
Link linkOf(dist::CollectiveOpInterface op) {
  dist::MeshOp mesh = dist::findMesh(op->getParentOfType<ModuleOp>());
  return groupLink(mesh.getMesh(), axisLinks(mesh.getMesh(), mesh.getCostsAttr()), dist::toAxisList(op.getAxes()));
}

// Returns the rates of a class in a table that is not empty.
const ShapeRate &rateOf(ArrayRef<ShapeRate> table, int64_t size) {
  const ShapeRate *above = llvm::upper_bound(table, size, [](int64_t size, const ShapeRate &rate) { return size < rate.from; });
  return above == table.begin() ? *above : *std::prev(above);
}

// Returns the links that costsOf wrote.
SmallVector<Link> readLinks(dist::CostsAttr costs) {
  SmallVector<Link> links(costs.getLatencyNs().size());
  for (auto [link, latency, rate] : llvm::zip_equal(links, costs.getLatencyNs(), costs.getBytesPerUs())) {
    link.latencyNs = latency;
    link.bytesPerUs = rate;
  }
  for (dist::KindCostsAttr kind : costs.getKinds()) {
    for (auto [link, latency, rate] : llvm::zip_equal(links, kind.getLatencyNs(), kind.getBytesPerUs())) {
      link.set(kind.getKind(), {latency, rate});
    }
  }
  llvm::for_each(costs.getBeside(), [&](int64_t axis) { links[axis].movesBeside = true; });
  return links;
}

} // namespace

bool Link::operator==(const Link &other) const {
  return llvm::all_of(kSendingKinds, [&](CollectiveKind kind) { return of(kind) == other.of(kind); });
}

bool Link::isFasterThan(const Link &other) const {
  return llvm::all_of(kSendingKinds, [&](CollectiveKind kind) { return of(kind).isNotSlowerThan(other.of(kind)); }) && !(*this == other);
}

Link Link::worse(const Link &other) const {
  MessageCost plain = MessageCost{latencyNs, bytesPerUs}.worse({other.latencyNs, other.bytesPerUs});
  Link slower{plain.latencyNs, plain.bytesPerUs, movesBeside || other.movesBeside};
  for (CollectiveKind kind : kSendingKinds) {
    const auto index = static_cast<size_t>(kind);
    if (own[index] || other.own[index]) {
      slower.set(kind, of(kind).worse(other.of(kind)));
    }
  }
  return slower;
}

MessageCost Link::fastest() const {
  MessageCost cost = of(kSendingKinds[0]);
  llvm::for_each(kSendingKinds, [&](CollectiveKind kind) { cost = cost.better(of(kind)); });
  return cost;
}

dist::CostsAttr costsOf(MLIRContext *context, ArrayRef<Link> links) {
  SmallVector<int64_t> beside;
  for (auto [axis, link] : llvm::enumerate(links)) {
    if (link.movesBeside) {
      beside.push_back(axis);
    }
  }
  auto numbers = [&](auto number) { return llvm::map_to_vector(links, number); };
  SmallVector<dist::KindCostsAttr> kinds;
  for (CollectiveKind kind : kSendingKinds) {
    if (llvm::any_of(links, [&](const Link &link) { return link.own[static_cast<size_t>(kind)].has_value(); })) {
      kinds.push_back(dist::KindCostsAttr::get(context, kind, numbers([&](const Link &link) { return link.of(kind).latencyNs; }),
                                               numbers([&](const Link &link) { return link.of(kind).bytesPerUs; })));
    }
  }
  return dist::CostsAttr::get(context, numbers([](const Link &link) { return link.latencyNs; }),
                              numbers([](const Link &link) { return link.bytesPerUs; }), beside, kinds);
}

SmallVector<Link> axisLinks(dist::MeshAttr mesh, dist::CostsAttr costs) {
  return costs ? readLinks(costs) : SmallVector<Link>(mesh.getAxes().size());
}

MeshLinks linksOf(dist::MeshOp mesh) {
  return {axisLinks(mesh.getMesh(), mesh.getCostsAttr()), mesh.getHostsAttr(),
          llvm::to_vector(mesh.getDeviceIds().value_or(ArrayRef<int64_t>()))};
}

int64_t stageMessagePs(int64_t bytes, const Link &link) {
  return collectiveTimePs(CollectiveKind::Permute, bytes, /*groupSize=*/2, link);
}

Link groupLink(dist::MeshAttr mesh, ArrayRef<Link> links, ArrayRef<StringAttr> axes) {
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
    llvm_unreachable("the messages of a halo follow from its segments");
  }
  llvm_unreachable("unknown collective");
}

int64_t messageTimePs(int64_t messages, int64_t bytes, const MessageCost &cost) {
  return rt::messageTimePs(messages, bytes, cost.latencyNs, cost.bytesPerUs);
}

int64_t collectiveTimePs(CollectiveKind kind, int64_t operandBytes, int64_t groupSize, const Link &link) {
  return messageTimePs(collectiveMessages(kind, groupSize), dist::collectiveBytes(kind, operandBytes, groupSize), link.of(kind));
}

Traffic trafficOf(dist::CollectiveOpInterface op) {
  if (auto halo = dyn_cast<dist::HaloOp>(op.getOperation())) { // as haloCost
    return {dist::haloTraffic(dist::axisSizes(halo), dist::haloOf(halo)).mostMessages, dist::collectiveBytes(op)};
  }
  int64_t group = dist::findMesh(op->getParentOfType<ModuleOp>()).getMesh().groupSize(dist::toAxisList(op.getAxes()));
  return {collectiveMessages(op.getCollectiveKind(), group), dist::collectiveBytes(op.getCollectiveKind(), dist::operandBytes(op), group)};
}

int64_t collectiveTimePs(dist::CollectiveOpInterface op) {
  const Traffic traffic = trafficOf(op);
  return messageTimePs(traffic.messages, traffic.bytes, linkOf(op).of(op.getCollectiveKind()));
}

int64_t collectiveTimePs(dist::CollectiveOpInterface op, int64_t bytes) {
  return collectiveTimePs(op) + messageTimePs(/*messages=*/0, bytes - dist::collectiveBytes(op), linkOf(op).of(op.getCollectiveKind()));
}

bool movesBeside(dist::CollectiveOpInterface op) {
  return linkOf(op).movesBeside;
}

HaloCost haloCost(dist::MeshAttr mesh, const dist::SplitWindow &window, RankedTensorType operand, const Link &link) {
  dist::HaloTraffic traffic = dist::haloTraffic(dist::axisSizes(mesh, window.axes), *window.halo);
  int64_t bytes = dist::haloBytes(operand, window.dim, traffic.mostSent);
  return {bytes, messageTimePs(traffic.mostMessages, bytes, link.of(CollectiveKind::Halo))};
}

int64_t bucketBytes(CollectiveKind kind, int64_t groupSize, const Link &link) {
  constexpr int64_t kLatencyShare = 20, kNsPerUs = 1000;
  const MessageCost cost = link.of(kind);
  // What is sent in the time of all messages is to be one part of these.
  __int128 sent = __int128(kLatencyShare - 1) * collectiveMessages(kind, groupSize) * cost.latencyNs * cost.bytesPerUs / kNsPerUs;
  // A device sends 2 (n-1)/n of the whole tensor in an all-reduce, and (n-1)/n of it in the others.
  int64_t rounds = kind == CollectiveKind::AllReduce ? 2 : 1;
  return groupSize == 1 ? 0 : static_cast<int64_t>(std::min<__int128>(sent * groupSize / (rounds * (groupSize - 1)), kMostBucketBytes));
}

ArrayRef<ShapeRate> DeviceRates::tableOf(RateClass::Kind kind) const {
  switch (kind) {
  case RateClass::Product:
    return products;
  case RateClass::Convolution:
    return convolutions;
  case RateClass::Attention:
    return attentions.empty() ? products : attentions;
  }
  llvm_unreachable("unknown kind of library call");
}

Work DeviceRates::atFullRate(const Work &work) const {
  if (!work.rateClass || tableOf(work.rateClass->kind).empty()) {
    return {work.flops, work.narrowFlops, std::nullopt};
  }
  const ShapeRate &rate = rateOf(tableOf(work.rateClass->kind), work.rateClass->size);
  auto scale = [](int64_t operations, int64_t full, int64_t own) {
    return static_cast<int64_t>(std::min<__int128>((__int128(operations) * full + own - 1) / own, INT64_MAX));
  };
  return {scale(work.flops, flopsPerUs, rate.flopsPerUs), scale(work.narrowFlops, narrowFlopsPerUs, rate.narrowFlopsPerUs), std::nullopt};
}

int64_t DeviceRates::timePs(const Work &work, int64_t bytes) const {
  constexpr __int128 kPsPerUs = 1000000;
  const Work full = atFullRate(work);
  __int128 computing = full.flops * kPsPerUs / flopsPerUs + full.narrowFlops * kPsPerUs / narrowFlopsPerUs;
  __int128 moving = bytes * kPsPerUs / bytesPerUs;
  return static_cast<int64_t>(std::min(std::max(computing, moving), __int128(kMostTimePs)));
}

int64_t DeviceRates::callPs(const Work &work, int64_t bytes) const {
  constexpr int64_t kPsPerNs = 1000;
  const bool isNothing = work.flops == 0 && work.narrowFlops == 0 && bytes == 0;
  return isNothing ? 0 : std::min(timePs(work, bytes) + launchNs * kPsPerNs, kMostTimePs);
}

bool runsAlone(Operation *op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return !compute || compute.getCost() == Cost::Contraction || isa<IndexingOpInterface, UpdatingOpInterface>(op);
}

std::optional<unsigned> findUpdated(Operation *op) {
  auto update = dyn_cast_or_null<UpdatingOpInterface>(op);
  return update ? std::optional(update.getUpdatedMutable().getOperandNumber()) : std::nullopt;
}

Work &Work::operator+=(const Work &other) {
  assert(!rateClass && !other.rateClass && "the sum has no class");
  auto add = [](int64_t &sum, int64_t more) { sum = static_cast<int64_t>(std::min<__int128>(__int128(sum) + more, INT64_MAX)); };
  add(flops, other.flops);
  add(narrowFlops, other.narrowFlops);
  return *this;
}

// Elements are the products that a contraction adds up, else those of the largest tensor that moves.
Work workOf(Operation *op, ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType> results) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  if (!compute || results.empty()) {
    return {};
  }
  __int128 elements = 0;
  auto add = [&](RankedTensorType type) { elements = std::max<__int128>(elements, type.getNumElements()); };
  if (std::optional<unsigned> updated = findUpdated(op)) {
    llvm::for_each(operands.take_front(*updated), add);
    llvm::for_each(operands.drop_front(*updated + 1), add);
  } else {
    llvm::for_each(results, add);
  }
  if (!isa<IndexingOpInterface, UpdatingOpInterface>(op)) {
    llvm::for_each(operands, add);
  }
  std::optional<RateClass> rateClass;
  if (auto contraction = dyn_cast<ContractionOpInterface>(op)) {
    elements = contraction.countProducts(operands, results);
    rateClass = contraction.getRateClass(operands, results);
  }
  int64_t flops = static_cast<int64_t>(std::min<__int128>(elements, INT64_MAX / 64)) * flopsOf(compute.getCost());
  // The factors of a contraction come first; an attention takes sums in f32, too.
  bool isNarrow = llvm::all_of(rateClass ? operands.take_front(2) : operands,
                               [](RankedTensorType type) { return type.getElementTypeBitWidth() == 16; });
  return isNarrow ? Work{0, flops, rateClass} : Work{flops, 0, rateClass};
}

int64_t opTimePs(Operation *op, const DeviceRates &rates) {
  if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op)) {
    return collectiveTimePs(collective);
  }
  auto types = [](TypeRange range) { return llvm::map_to_vector(range, [](Type type) { return cast<RankedTensorType>(type); }); };
  return opTimePs(op, types(op->getOperandTypes()), types(op->getResultTypes()), rates);
}

int64_t opTimePs(Operation *op, ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType> results, const DeviceRates &rates) {
  const Work work = workOf(op, operands, results);
  const std::optional<unsigned> updated = findUpdated(op);
  int64_t bytes = 0;
  for (auto [number, type] : llvm::enumerate(operands)) {
    bytes += !updated ? byteSize(type) : number == *updated ? 0 : 2 * byteSize(type); // read and written
  }
  for (RankedTensorType type : results) {
    bytes += updated ? 0 : byteSize(type);
  }
  return runsAlone(op) ? rates.callPs(work, bytes) : rates.timePs(work, bytes);
}

DeviceRates findDeviceRates(ModuleOp module) {
  auto device = module->getAttrOfType<dist::DeviceAttr>(dist::kDeviceAttr);
  if (!device) {
    return {};
  }
  DeviceRates rates{device.getFlopsPerUs(), device.getNarrowFlopsPerUs(), device.getBytesPerUs(), device.getLaunchNs()};
  auto read = [](ArrayRef<dist::RateAttr> table, SmallVector<ShapeRate, 0> &rates) {
    for (dist::RateAttr rate : table) {
      rates.push_back({rate.getFrom(), rate.getFlopsPerUs(), rate.getNarrowFlopsPerUs()});
    }
  };
  read(device.getProducts(), rates.products);
  read(device.getConvolutions(), rates.convolutions);
  read(device.getAttentions(), rates.attentions);
  return rates;
}

dist::DeviceAttr deviceOf(MLIRContext *context, const DeviceRates &rates) {
  auto write = [&](ArrayRef<ShapeRate> table) {
    return llvm::map_to_vector(
        table, [&](const ShapeRate &rate) { return dist::RateAttr::get(context, rate.from, rate.flopsPerUs, rate.narrowFlopsPerUs); });
  };
  return dist::DeviceAttr::get(context, rates.flopsPerUs, rates.narrowFlopsPerUs, rates.bytesPerUs, rates.launchNs, write(rates.products),
                               write(rates.convolutions), write(rates.attentions));
}

} // namespace ashlar::analysis
