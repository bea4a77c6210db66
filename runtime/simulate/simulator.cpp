// SPDX-License-Identifier: Apache-2.0
//
// Tables, links and classes -> a step that is played; and its standstills in words.

#include "runtime/simulate/simulator.h"

#include "runtime/comm/mesh.h"
#include "runtime/simulate/link_uses.h"
#include "runtime/timeline/step_player.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// The actors of a simulation, one a class, and what they do.
class Scene {
public:
  Scene(const StepTables &tables, const SimulatedMachine &machine, const SimulationOptions &options, const RankClasses &ranks)
      : tables(tables), machine(machine), options(options), ranks(ranks), links(machine, tables, ranks) {}

  std::vector<ActorTimes> play() const {
    PlayOptions play;
    play.steps = options.steps;
    play.batchPs = options.batchPs;
    play.handOverPs = machine.handOverPs;
    play.links = links.count();
    return playSteps(timeCollectives(), makeRoles(), makeMeetings(), play);
  }

private:
  std::vector<Role> makeRoles() const {
    std::vector<Role> roles;
    for (const RankClasses::Class &each : ranks.classes) {
      Role &role = roles.emplace_back();
      role.stage = each.stage;
      role.device = static_cast<uint32_t>(Mesh(tables.stages[each.stage]).firstDeviceOf(static_cast<int>(each.first)));
      const auto slow = options.faults.slowRanks.find(each.first);
      role.factor = slow == options.faults.slowRanks.end() ? 1 : slow->second;
      role.isLost = options.faults.lostRank == each.first;
    }
    for (uint32_t rank : options.tracedRanks) {
      roles[ranks.ofRank[rank]].isTraced = true;
    }
    return roles;
  }

  // The tables, with the times of collectives over their links.
  TimedStep timeCollectives() const {
    std::vector<ashlar_rt_link> setLinks;
    for (const std::vector<uint32_t> &axes : tables.axisSets) {
      setLinks.push_back(machine.groupLink(axes));
    }
    TimedStep step = tables;
    for (std::vector<TimedProgram> &programs : step.programs) {
      for (TimedProgram &program : programs) {
        for (TimedItem &item : program.items) {
          if (item.kind == TimedItem::kCollective) {
            item.ps = collectivePs(collectiveOf(program.instrs[item.begin]), setLinks[item.axisSet]);
            item.movesBeside = setLinks[item.axisSet].moves_beside != 0;
          }
        }
      }
    }
    return step;
  }

  uint64_t collectivePs(const ashlar_rt_collective_desc &desc, const ashlar_rt_link &link) const {
    const uint64_t ps = timeOver(link, desc.kind, desc.messages, desc.bytes_sent);
    for (uint32_t i = 0; i < desc.num_axes && !options.faults.slowAxes.empty(); ++i) {
      const double factor = options.faults.slowAxes[desc.axes[i]];
      if (factor != 1) {
        return scaledTime(ps, factor); // a group has the worst of its links
      }
    }
    return ps;
  }

  Meetings makeMeetings() const {
    const uint32_t classes = static_cast<uint32_t>(ranks.classes.size());
    Meetings meetings(tables.axisSets.size(), tables.channels.size(), classes);
    for (uint32_t set = 0; set < tables.axisSets.size(); ++set) {
      for (uint32_t i = 0; i < classes; ++i) {
        if (meetings.group(set, i) != kNone) {
          continue;
        }
        for (uint32_t member : ranks.groups[set][i]) {
          meetings.group(set, member) = static_cast<uint32_t>(meetings.groups.size());
        }
        meetings.groups.push_back({ranks.groups[set][i], {}, 0, links.ofGroup(set, ranks.groups[set][i])});
      }
    }
    for (uint32_t channel = 0; channel < tables.channels.size(); ++channel) {
      for (uint32_t sender = 0; sender < classes; ++sender) {
        if (ranks.classes[sender].stage == tables.channels[channel].from) {
          addQueue(channel, sender, meetings);
        }
      }
    }
    return meetings;
  }

  void addQueue(uint32_t channel, uint32_t sender, Meetings &meetings) const {
    const StageChannel &ends = tables.channels[channel];
    const uint32_t perStage = static_cast<uint32_t>(ranks.ofRank.size()) / tables.stages.size(), first = ranks.classes[sender].first;
    const uint32_t peer = first - ends.from * perStage + ends.to * perStage, receiver = ranks.ofRank[peer];
    const uint64_t ps = machine.stages.empty() ? 0
                                               : scaledTime(timeOver(machine.stages[ends.to][ends.from], ASHLAR_RT_PERMUTE, 1, ends.bytes),
                                                            options.faults.slowMessages);
    meetings.queue(channel, sender) = meetings.queue(channel, receiver) = static_cast<uint32_t>(meetings.queues.size());
    meetings.queues.push_back({sender, receiver, ps, links.ofMessage(first, peer)});
  }

  const StepTables &tables;
  const SimulatedMachine &machine;
  const SimulationOptions &options;
  const RankClasses &ranks;
  const LinkUses links;
};

// The thing that a class waits for, in words.
std::string describe(const Standstill &still, const ashlar_rt_variant &stage) {
  const ashlar_rt_program &program = stage.programs[still.program];
  switch (still.kind) {
  case Standstill::kNothing:
    return "";
  case Standstill::kMessage: {
    const ashlar_rt_transfer &transfer = program.receives[still.index];
    return fmt::format("message {} from stage {}", stage.tensors[transfer.tensor].name, transfer.stage);
  }
  case Standstill::kSlot: {
    const ashlar_rt_transfer &transfer = program.sends[still.index];
    return fmt::format("slot of {} until it is read by stage {}", stage.tensors[transfer.tensor].name, transfer.stage);
  }
  case Standstill::kCollective:
    return program.instrs[still.index].name;
  }
  return "";
}

} // namespace

Status simulateSteps(const StepTables &tables, const SimulatedMachine &machine, const SimulationOptions &options, Simulation &result) {
  const uint32_t perStage = static_cast<uint32_t>(Mesh(tables.stages[0]).processes()), ranks = perStage * tables.stages.size();
  std::vector<uint32_t> alone;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (!options.usesSymmetry || options.faults.slowRanks.count(rank) != 0 || options.faults.lostRank == rank) {
      alone.push_back(rank);
    }
  }
  result = Simulation();
  result.ranks = classifyRanks(tables, ranks, machine, alone);
  for (ActorTimes &times : Scene(tables, machine, options, result.ranks).play()) {
    const uint32_t stage = result.ranks.classes[result.classes.size()].stage;
    SimulatedClass &each = result.classes.emplace_back();
    static_cast<ActorTimes &>(each) = std::move(times);
    if (!each.isDone && !options.faults.lostRank) {
      return internal("the order of stage {} stands still at run {} of {}", stage, each.runs.size(),
                      options.steps * tables.runs[stage].size());
    }
    each.standsStill = describe(each.standstill, tables.stages[stage]);
    result.endPs = std::max(result.endPs, each.endPs);
  }
  return Status();
}

} // namespace ashlar::rt
