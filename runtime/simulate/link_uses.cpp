// SPDX-License-Identifier: Apache-2.0
//
// The links of pool class p are 2p and 2p + 1, to send and to receive; pod classes and rank classes follow in the same way.

#include "runtime/simulate/link_uses.h"

#include "runtime/comm/mesh.h"

#include <algorithm>
#include <map>

namespace ashlar::rt {
namespace {

// Counts ranks by the place that they leave.
class LeavingCount {
public:
  void add(uint64_t place) { most = std::max(most, ++counts[place]); }
  uint64_t mostOfAll() const { return most; }

private:
  std::map<uint64_t, uint64_t> counts;
  uint64_t most = 0;
};

} // namespace

LinkUses::LinkUses(const SimulatedMachine &machine, const StepTables &tables, const RankClasses &ranks)
    : machine(machine), tables(tables), ranks(ranks) {
  if (!machine.axes.empty()) {
    countGroups();
  }
}

void LinkUses::countGroups() {
  for (const std::vector<uint32_t> &axes : tables.axisSets) {
    std::vector<Leaving> &ofStage = ofGroups.emplace_back(tables.stages.size());
    for (const ashlar_rt_variant &stage : tables.stages) {
      const Mesh mesh(stage);
      LeavingCount inPools, inPods;
      for (const Group &group : mesh.groups(axes.data(), static_cast<uint32_t>(axes.size()))) {
        auto rank = [&](int device) { return static_cast<uint64_t>(mesh.processOf(device)); };
        const uint64_t host = machine.hostOf(rank(group.front())), pod = machine.podOf(rank(group.front()));
        const bool leavesHost = std::any_of(group.begin(), group.end(), [&](int device) { return machine.hostOf(rank(device)) != host; });
        const bool leavesPod = std::any_of(group.begin(), group.end(), [&](int device) { return machine.podOf(rank(device)) != pod; });
        for (int device : group) {
          if (leavesHost) {
            inPools.add(machine.poolOf(rank(device)));
          }
          if (leavesPod) {
            inPods.add(machine.podOf(rank(device)));
          }
        }
      }
      ofStage[stage.stage] = {inPools.mostOfAll(), inPods.mostOfAll()};
    }
  }
}

LinkUses::Leaving LinkUses::countMessages(uint32_t fromStage, uint32_t toStage) const {
  const uint32_t perStage = static_cast<uint32_t>(ranks.ofRank.size()) / tables.stages.size();
  LeavingCount inPools, inPods;
  for (uint32_t device = 0; device < perStage; ++device) {
    const uint64_t from = uint64_t{fromStage} * perStage + device, to = uint64_t{toStage} * perStage + device;
    if (machine.hostOf(from) != machine.hostOf(to)) {
      inPools.add(machine.poolOf(from));
    }
    if (machine.podOf(from) != machine.podOf(to)) {
      inPods.add(machine.podOf(from));
    }
  }
  return {inPools.mostOfAll(), inPods.mostOfAll()};
}

// A rank sends at the rate that its part of the adapters allows, or its part of the uplinks where that is less. Rounded down: together they
// never take more than there is.
LinkUses::Parts LinkUses::partsOf(const Leaving &most) const {
  using Wide = unsigned __int128;
  const Wide byAdapters = Wide(machine.adapterBytesPerUs) * std::min(machine.adaptersPerPool(), most.pools); // of most.pools ranks
  const Wide byUplinks = Wide(machine.uplinkBytesPerUs) * std::min(machine.uplinksPerPod, most.pods);        // of most.pods ranks
  const bool isByUplinks = most.pods != 0 && byUplinks * most.pools < byAdapters * most.pods;
  const Wide rate = isByUplinks ? byUplinks : byAdapters, sharers = isByUplinks ? most.pods : most.pools;
  auto part = [&](uint64_t links, uint64_t bytesPerUs) {
    return static_cast<uint64_t>(kWholeLink * rate / (sharers * links * bytesPerUs));
  };
  return {part(machine.adaptersPerPool(), machine.adapterBytesPerUs), part(machine.uplinksPerPod, machine.uplinkBytesPerUs)};
}

std::vector<LinkUse> LinkUses::ofGroup(uint32_t axisSet, const std::vector<uint32_t> &classes) const {
  std::vector<LinkUse> uses;
  if (machine.axes.empty() || machine.groupLink(tables.axisSets[axisSet]).moves_beside == 0) {
    return uses;
  }
  const Leaving &most = ofGroups[axisSet][ranks.classes[classes.front()].stage];
  if (most.pools == 0) {
    for (uint32_t each : classes) {
      uses.push_back({firstOfRanks() + 2 * each, kWholeLink});
      uses.push_back({firstOfRanks() + 2 * each + 1, kWholeLink});
    }
    return uses;
  }
  auto add = [&](const std::vector<RankClasses::Content> &places, uint32_t first, uint64_t part) {
    for (uint32_t place = 0; place < places.size(); ++place) {
      uint64_t count = 0;
      for (uint32_t each : classes) {
        count += RankClasses::countIn(places[place], each);
      }
      if (count != 0) {
        uses.push_back({first + 2 * place, count * part});
        uses.push_back({first + 2 * place + 1, count * part});
      }
    }
  };
  const Parts parts = partsOf(most);
  add(ranks.pools, 0, parts.ofPool);
  if (most.pods != 0) {
    add(ranks.pods, firstOfPods(), parts.ofPod);
  }
  return uses;
}

std::vector<LinkUse> LinkUses::ofMessage(uint32_t from, uint32_t to) const {
  if (machine.stages.empty()) {
    return {};
  }
  const uint32_t sender = ranks.ofRank[from], receiver = ranks.ofRank[to];
  const RankClasses::Class &source = ranks.classes[sender], &target = ranks.classes[receiver];
  if (machine.hostOf(from) == machine.hostOf(to)) {
    const bool isLink = machine.stages[target.stage][source.stage].moves_beside != 0;
    return isLink ? std::vector<LinkUse>{{firstOfRanks() + 2 * sender, kWholeLink}, {firstOfRanks() + 2 * receiver + 1, kWholeLink}}
                  : std::vector<LinkUse>();
  }
  const Parts parts = partsOf(countMessages(source.stage, target.stage));
  std::vector<LinkUse> uses;
  auto add = [&](const std::vector<RankClasses::Content> &places, uint32_t first, uint32_t fromPlace, uint32_t toPlace, uint64_t part) {
    auto partAt = [&](uint32_t place, uint32_t rankClass) {
      return std::min(kWholeLink, RankClasses::countIn(places[place], rankClass) * part);
    };
    uses.push_back({first + 2 * fromPlace, partAt(fromPlace, sender)});
    uses.push_back({first + 2 * toPlace + 1, partAt(toPlace, receiver)});
  };
  add(ranks.pools, 0, source.pool, target.pool, parts.ofPool);
  if (machine.podOf(from) != machine.podOf(to)) {
    add(ranks.pods, firstOfPods(), source.pod, target.pod, parts.ofPod);
  }
  return uses;
}

} // namespace ashlar::rt
