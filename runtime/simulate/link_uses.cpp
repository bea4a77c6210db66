// SPDX-License-Identifier: Apache-2.0
//
// The links of host class h are 2h and 2h + 1, to send and to receive; those of rank classes follow in the same way.

#include "runtime/simulate/link_uses.h"

#include "runtime/comm/mesh.h"

#include <algorithm>
#include <map>

namespace ashlar::rt {

LinkUses::LinkUses(const SimulatedMachine &machine, const StepTables &tables, const RankClasses &ranks)
    : machine(machine), tables(tables), ranks(ranks) {
  if (!machine.axes.empty()) {
    countSpanning();
  }
}

void LinkUses::countSpanning() {
  for (const std::vector<uint32_t> &axes : tables.axisSets) {
    std::vector<uint64_t> &ofStage = spanning.emplace_back(tables.stages.size(), 0);
    for (const ashlar_rt_variant &stage : tables.stages) {
      const Mesh mesh(stage);
      std::map<uint64_t, uint64_t> onHost;
      for (const Group &group : mesh.groups(axes.data(), static_cast<uint32_t>(axes.size()))) {
        auto host = [&](int device) { return hostOf(static_cast<uint32_t>(mesh.processOf(device))); };
        const bool spans = std::any_of(group.begin(), group.end(), [&](int device) { return host(device) != host(group.front()); });
        for (int device : group) {
          onHost[host(device)] += spans;
        }
      }
      for (const auto &[host, devices] : onHost) {
        ofStage[stage.stage] = std::max(ofStage[stage.stage], devices);
      }
    }
  }
}

// Returns the part of a host's adapters that each of so many ranks takes. Rounded down: together they never take more than there is.
uint64_t LinkUses::demandOf(uint64_t devices) const {
  return kWholeLink * std::min(machine.adaptersPerHost, devices) / (machine.adaptersPerHost * devices);
}

uint64_t LinkUses::countOn(uint32_t host, uint32_t rankClass) const {
  for (auto [each, count] : ranks.hosts[host]) {
    if (each == rankClass) {
      return count;
    }
  }
  return 0;
}

std::vector<LinkUse> LinkUses::ofGroup(uint32_t axisSet, const std::vector<uint32_t> &classes) const {
  std::vector<LinkUse> uses;
  if (machine.axes.empty() || machine.groupLink(tables.axisSets[axisSet]).moves_beside == 0) {
    return uses;
  }
  const uint32_t hosts = static_cast<uint32_t>(ranks.hosts.size());
  const uint64_t devices = spanning[axisSet][ranks.classes[classes.front()].stage];
  if (devices == 0) {
    for (uint32_t each : classes) {
      uses.push_back({2 * (hosts + each), kWholeLink});
      uses.push_back({2 * (hosts + each) + 1, kWholeLink});
    }
    return uses;
  }
  for (uint32_t host = 0; host < hosts; ++host) {
    uint64_t count = 0;
    for (uint32_t each : classes) {
      count += countOn(host, each);
    }
    if (count != 0) {
      uses.push_back({2 * host, count * demandOf(devices)});
      uses.push_back({2 * host + 1, count * demandOf(devices)});
    }
  }
  return uses;
}

std::vector<LinkUse> LinkUses::ofMessage(uint32_t from, uint32_t to) const {
  if (machine.stages.empty()) {
    return {};
  }
  const uint32_t sender = ranks.ofRank[from], receiver = ranks.ofRank[to], hosts = static_cast<uint32_t>(ranks.hosts.size());
  const uint32_t fromStage = ranks.classes[sender].stage, toStage = ranks.classes[receiver].stage;
  if (hostOf(from) == hostOf(to)) {
    const bool isLink = machine.stages[toStage][fromStage].moves_beside != 0;
    return isLink ? std::vector<LinkUse>{{2 * (hosts + sender), kWholeLink}, {2 * (hosts + receiver) + 1, kWholeLink}}
                  : std::vector<LinkUse>();
  }
  const uint32_t perStage = static_cast<uint32_t>(ranks.ofRank.size()) / tables.stages.size();
  std::map<uint64_t, uint64_t> leaving; // ranks of a host
  uint64_t most = 1;
  for (uint32_t device = 0; device < perStage; ++device) {
    const uint64_t host = hostOf(fromStage * perStage + device);
    most = std::max(most, host != hostOf(toStage * perStage + device) ? ++leaving[host] : 0);
  }
  const uint32_t fromHost = ranks.classes[sender].host, toHost = ranks.classes[receiver].host;
  return {{2 * fromHost, std::min(kWholeLink, countOn(fromHost, sender) * demandOf(most))},
          {2 * toHost + 1, std::min(kWholeLink, countOn(toHost, receiver) * demandOf(most))}};
}

} // namespace ashlar::rt
