// SPDX-License-Identifier: Apache-2.0
//
// Groups of ranks on hosts and in pods -> the links that they go by.

#include "passes/analysis/costs.h"

#include <map>
#include <numeric>

using namespace mlir;

namespace ashlar::analysis {
namespace {

// Returns the latency of one of the messages of a collective (collectiveMessages), so that all together take as long as those between
// hosts, each of which sends to all others at once: two of a tensor that is reduced, or sent to all, on more than two hosts, else one.
int64_t latencyAtOnce(CollectiveKind kind, int64_t latencyNs, const GroupsOnHosts &groups) {
  const bool comesBack = kind == CollectiveKind::AllReduce || kind == CollectiveKind::Broadcast;
  const int64_t messages = collectiveMessages(kind, groups.members);
  return static_cast<int64_t>((__int128(latencyNs) * (comesBack && groups.hosts > 2 ? 2 : 1) + messages - 1) / messages);
}

// The adapters of ranks that send to other hosts, where each adapter is of ranks of its own.
struct Rails {
  int64_t adapters = 1; // of the host that uses fewest
  int64_t ranks = 1;    // that share the fullest
  bool crosses = false; // ranks of one group have different ones
};

class RailCount {
public:
  explicit RailCount(dist::HostsAttr hosts) : adapters(hosts.getAdapters()), ranksOfRail(hosts.getRanksPerHost() / adapters) {}

  // Adds a rank that sends, and one of its group.
  void add(int64_t rank, int64_t other) {
    const int64_t rail = rank / ranksOfRail;
    rails.ranks = std::max(rails.ranks, ++ranks[rail / adapters][rail]);
    rails.crosses |= rail % adapters != other / ranksOfRail % adapters;
  }

  Rails get() {
    auto count = [](const auto &ofHost) { return static_cast<int64_t>(ofHost.second.size()); };
    const auto fewest = llvm::min_element(ranks, [&](const auto &a, const auto &b) { return count(a) < count(b); });
    rails.adapters = fewest == ranks.end() ? 1 : count(*fewest);
    return rails;
  }

private:
  const int64_t adapters, ranksOfRail;
  std::map<int64_t, std::map<int64_t, int64_t>> ranks; // by host and rail
  Rails rails;
};

// Where groups lie: on hosts, and in pods as on hosts of all of a pod's ranks.
struct Places {
  GroupsOnHosts onHosts;
  GroupsOnHosts inPods = {};       // of one host without pods
  std::optional<Rails> rails = {}; // null: all ranks of a host share all of its adapters
};

// Calls `take` with the group and the rank of each device of a mesh. A group is known by its device with coordinate 0 along the axes.
void forEachMember(int64_t devicesPerRank, ArrayRef<int64_t> axisSizes, ArrayRef<int64_t> deviceIds, ArrayRef<int64_t> axes,
                   llvm::function_ref<void(int64_t group, int64_t rank)> take) {
  const int64_t devices = std::accumulate(axisSizes.begin(), axisSizes.end(), int64_t(1), std::multiplies<>());
  for (int64_t device = 0; device < devices; ++device) {
    int64_t group = 0;
    for (int64_t axis = 0, stride = devices; axis < static_cast<int64_t>(axisSizes.size()); ++axis) {
      stride /= axisSizes[axis];
      group += llvm::is_contained(axes, axis) ? 0 : device / stride % axisSizes[axis] * stride;
    }
    take(group, deviceIds.empty() ? device / devicesPerRank : deviceIds[device]);
  }
}

// Returns the rails of the groups along an axis that have ranks on several hosts.
Rails railsOf(dist::HostsAttr hosts, ArrayRef<int64_t> axisSizes, ArrayRef<int64_t> deviceIds, int64_t axis) {
  std::map<int64_t, SmallVector<int64_t>> groups;
  forEachMember(hosts.getDevicesPerRank(), axisSizes, deviceIds, axis, [&](int64_t group, int64_t rank) { groups[group].push_back(rank); });
  RailCount count(hosts);
  for (const SmallVector<int64_t> &group : llvm::make_second_range(groups)) {
    auto hostOf = [&](int64_t rank) { return rank / hosts.getRanksPerHost(); };
    if (llvm::any_of(group, [&](int64_t rank) { return hostOf(rank) != hostOf(group.front()); })) {
      llvm::for_each(group, [&](int64_t rank) { count.add(rank, group.front()); });
    }
  }
  return count.get();
}

bool isMessage(CollectiveKind kind) {
  return kind == CollectiveKind::Permute || kind == CollectiveKind::Halo;
}

// Returns the rate of a device of such groups on hosts, or in pods, that have so many links of a rate: what it sends (collectiveBytes)
// takes as long as what all of its host, or pod, sends through these.
__int128 sharedRate(CollectiveKind kind, int64_t bytesPerUs, int64_t links, const GroupsOnHosts &groups) {
  const int64_t bytes = groups.members * groups.hosts; // a tensor that all divide, so that nothing is rounded
  const int64_t sent = isMessage(kind) ? bytes : dist::collectiveBytes(kind, bytes, groups.members);
  return __int128(bytesPerUs) * std::min(links, groups.devices) * sent / hostBytes(kind, bytes, groups);
}

// Returns the link of a device of such groups. Within a host it is that; between hosts no faster than within, and a message goes by one
// adapter; between pods no faster than between hosts.
Link linkAt(dist::HostsAttr hosts, const Places &places) {
  const SmallVector<Link> classes = axisLinks(/*mesh=*/{}, hosts.getLinks());
  if (places.onHosts.hosts == 1) {
    return classes[0];
  }
  const bool leavesPod = places.inPods.hosts > 1;
  Link link = leavesPod ? classes[2] : classes[1];
  for (CollectiveKind kind : kSendingKinds) {
    const MessageCost one = link.of(kind), adapter = classes[1].of(kind), within = classes[0].of(kind);
    const bool crosses = isMessage(kind) && places.rails && places.rails->crosses;
    __int128 rate = sharedRate(kind, adapter.bytesPerUs, places.rails ? places.rails->adapters : hosts.getAdapters(), places.onHosts);
    if (isMessage(kind)) {
      rate = std::min<__int128>(places.rails ? adapter.bytesPerUs / places.rails->ranks : rate, adapter.bytesPerUs);
    }
    rate = isMessage(kind) && !crosses ? rate : std::min<__int128>(rate, within.bytesPerUs);
    if (leavesPod) {
      rate = std::min(rate, sharedRate(kind, one.bytesPerUs, hosts.getUplinks(), places.inPods));
    }
    const bool isOne = isMessage(kind) || !hosts.getAtOnce();
    const int64_t latency = (isOne ? one.latencyNs : latencyAtOnce(kind, one.latencyNs, places.onHosts)) + (crosses ? within.latencyNs : 0);
    const MessageCost shared{latency, static_cast<int64_t>(std::max<__int128>(rate, 1))};
    if (!(shared == one)) {
      link.set(kind, shared);
    }
  }
  return link;
}

} // namespace

GroupsOnHosts groupsOnHosts(int64_t ranksPerHost, int64_t devicesPerRank, ArrayRef<int64_t> axisSizes, ArrayRef<int64_t> deviceIds,
                            ArrayRef<int64_t> axes, int64_t firstRank) {
  std::map<int64_t, std::map<int64_t, int64_t>> groups; // members of each by host
  GroupsOnHosts found;
  for (int64_t axis : axes) {
    found.members *= axisSizes[axis];
  }
  forEachMember(devicesPerRank, axisSizes, deviceIds, axes,
                [&](int64_t group, int64_t rank) { ++groups[group][(firstRank + rank) / ranksPerHost]; });
  std::map<int64_t, std::pair<int64_t, int64_t>> ofHost; // groups that are on other hosts too, their members
  for (const auto &hosts : llvm::make_second_range(groups)) {
    found.hosts = std::max(found.hosts, static_cast<int64_t>(hosts.size()));
    for (auto [host, members] : hosts) {
      auto &[count, ofGroups] = ofHost[host];
      count += hosts.size() > 1;
      ofGroups += hosts.size() > 1 ? members : 0;
      found.groups = std::max(found.groups, count);
      found.devices = std::max(found.devices, ofGroups);
    }
  }
  return found;
}

int64_t hostBytes(CollectiveKind kind, int64_t operandBytes, const GroupsOnHosts &on) {
  const int64_t others = on.hosts - 1;
  auto count = [&]() -> __int128 {
    const __int128 ofGroups = __int128(operandBytes) * on.groups, ofDevices = __int128(operandBytes) * on.devices;
    switch (kind) {
    case CollectiveKind::Slice:
      return 0;
    case CollectiveKind::AllReduce:
      return ofGroups * 2 * others / on.hosts;
    case CollectiveKind::ReduceScatter:
      return ofGroups * others / on.hosts;
    case CollectiveKind::AllGather:
      return ofDevices * others;
    case CollectiveKind::Broadcast:
      return on.hosts <= 2 ? ofGroups : ofGroups * 2 * others / on.hosts;
    case CollectiveKind::AllToAll:
      return on.groups == 0 ? 0 : ofDevices * (on.members - on.devices / on.groups) / on.members;
    case CollectiveKind::Permute:
      return ofDevices;
    case CollectiveKind::Halo:
      return ofGroups;
    }
    llvm_unreachable("unknown collective");
  };
  return static_cast<int64_t>(std::min<__int128>(count(), INT64_MAX));
}

SmallVector<Link> hostLinks(dist::HostsAttr hosts, ArrayRef<int64_t> axisSizes, ArrayRef<int64_t> deviceIds) {
  auto groupsOn = [&](int64_t ranks, int64_t axis) { return groupsOnHosts(ranks, hosts.getDevicesPerRank(), axisSizes, deviceIds, axis); };
  SmallVector<Link> links;
  for (int64_t axis = 0; axis < static_cast<int64_t>(axisSizes.size()); ++axis) {
    Places places{groupsOn(hosts.getRanksPerHost(), axis)};
    if (hosts.getRails()) {
      places.rails = railsOf(hosts, axisSizes, deviceIds, axis);
    }
    if (hosts.getHostsPerPod() != 0) {
      places.inPods = groupsOn(hosts.getRanksPerHost() * hosts.getHostsPerPod(), axis);
    }
    links.push_back(linkAt(hosts, places));
  }
  return links;
}

Link stageLink(dist::HostsAttr hosts, int64_t devices, int64_t from, int64_t to) {
  // Pairs of ranks, on hosts or in pods of so many ranks: most of one that send to another one.
  auto pairsOn = [&](int64_t ranks) {
    auto placeOf = [&](int64_t stage, int64_t device) { return (stage * devices + device) / ranks; };
    std::map<int64_t, int64_t> leaving;
    int64_t most = 0;
    for (int64_t device = 0; device < devices; ++device) {
      if (placeOf(from, device) != placeOf(to, device)) {
        most = std::max(most, ++leaving[placeOf(from, device)]);
      }
    }
    return GroupsOnHosts{/*members=*/2, /*hosts=*/most == 0 ? 1 : 2, /*groups=*/most, /*devices=*/most};
  };
  Places places{pairsOn(hosts.getRanksPerHost())};
  if (hosts.getRails()) {
    RailCount count(hosts);
    for (int64_t device = 0; device < devices; ++device) {
      const int64_t sender = from * devices + device, receiver = to * devices + device;
      if (sender / hosts.getRanksPerHost() != receiver / hosts.getRanksPerHost()) {
        count.add(sender, receiver);
      }
    }
    places.rails = count.get();
  }
  if (hosts.getHostsPerPod() != 0) {
    places.inPods = pairsOn(hosts.getRanksPerHost() * hosts.getHostsPerPod());
  }
  return linkAt(hosts, places);
}

} // namespace ashlar::analysis
