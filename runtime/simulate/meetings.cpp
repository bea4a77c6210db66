// SPDX-License-Identifier: Apache-2.0
//
// Classes -> groups and queues.

#include "runtime/simulate/meetings.h"

namespace ashlar::rt {

Meetings::Meetings(const StepTables &tables, const RankClasses &ranks, const LinkUses &links) {
  const uint32_t classes = static_cast<uint32_t>(ranks.classes.size());
  groupOf.assign(tables.axisSets.size(), std::vector<uint32_t>(classes, kNone));
  for (uint32_t set = 0; set < tables.axisSets.size(); ++set) {
    for (uint32_t i = 0; i < classes; ++i) {
      if (groupOf[set][i] != kNone) {
        continue;
      }
      for (uint32_t member : ranks.groups[set][i]) {
        groupOf[set][member] = static_cast<uint32_t>(groups.size());
      }
      groups.push_back({ranks.groups[set][i], {}, 0, links.ofGroup(set, ranks.groups[set][i])});
    }
  }
  const uint32_t perStage = static_cast<uint32_t>(ranks.ofRank.size()) / tables.stages.size();
  queueOf.assign(tables.channels.size(), std::vector<uint32_t>(classes, kNone));
  for (uint32_t channel = 0; channel < tables.channels.size(); ++channel) {
    const StageChannel &ends = tables.channels[channel];
    for (uint32_t sender = 0; sender < classes; ++sender) {
      const RankClasses::Class &from = ranks.classes[sender];
      if (from.stage != ends.from) {
        continue;
      }
      const uint32_t peer = from.first - ends.from * perStage + ends.to * perStage, receiver = ranks.ofRank[peer];
      queueOf[channel][sender] = queueOf[channel][receiver] = static_cast<uint32_t>(queues.size());
      queues.push_back(
          {sender, receiver, 0, 0, std::vector<uint64_t>(slotsOf(tables.stages[ends.from]), 0), links.ofMessage(from.first, peer)});
    }
  }
}

} // namespace ashlar::rt
