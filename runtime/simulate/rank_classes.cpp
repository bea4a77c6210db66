// SPDX-License-Identifier: Apache-2.0
//
// Colour refinement: ranks get a colour by their stage, then again and again one by the colours around them, until no class splits.

#include "runtime/simulate/rank_classes.h"

#include "runtime/comm/mesh.h"

#include <algorithm>
#include <map>
#include <set>

namespace ashlar::rt {
namespace {

using Colours = std::vector<uint32_t>;

// Numbers for equal lists, in the order in which they are met.
class Palette {
public:
  uint32_t colourOf(const Colours &list) { return numbers.try_emplace(list, static_cast<uint32_t>(numbers.size())).first->second; }
  size_t size() const { return numbers.size(); }

private:
  std::map<Colours, uint32_t> numbers;
};

class Refinement {
public:
  Refinement(const StepTables &tables, uint32_t ranks, const SimulatedMachine &machine, const std::set<uint32_t> &alone)
      : ranks(ranks), perStage(ranks / tables.stages.size()), machine(machine) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      pools.resize(machine.poolOf(rank) + 1);
      pools.back().push_back(rank);
      pods.resize(machine.podOf(rank) + 1);
      pods.back().push_back(rank);
    }
    for (const std::vector<uint32_t> &axes : tables.axisSets) {
      groups.emplace_back();
      for (const ashlar_rt_variant &stage : tables.stages) {
        const Mesh mesh(stage);
        for (const Group &group : mesh.groups(axes.data(), static_cast<uint32_t>(axes.size()))) {
          Colours members;
          for (int device : group) {
            members.push_back(static_cast<uint32_t>(mesh.processOf(device)));
          }
          groups.back().push_back(std::move(members));
        }
      }
    }
    for (const StageChannel &channel : tables.channels) {
      neighbours.insert({channel.from, channel.to});
      neighbours.insert({channel.to, channel.from});
    }
    Palette palette;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      colours.push_back(palette.colourOf({rank / perStage, alone.count(rank) != 0 ? rank + 1 : 0}));
    }
    number = palette.size();
  }

  RankClasses run() {
    for (size_t before = 0; before != number;) {
      before = number;
      refine();
    }
    return describe();
  }

private:
  // Gives each rank of a list a colour that follows from the colours of all of them.
  void addColourOf(const Colours &members, Palette &palette, std::vector<Colours> &signatures) const {
    Colours seen;
    for (uint32_t rank : members) {
      seen.push_back(colours[rank]);
    }
    std::sort(seen.begin(), seen.end());
    const uint32_t colour = palette.colourOf(seen);
    for (uint32_t rank : members) {
      signatures[rank].push_back(colour);
    }
  }

  void refine() {
    std::vector<Colours> signatures(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      signatures[rank].push_back(colours[rank]);
    }
    for (const std::vector<Colours> &ofSet : groups) {
      Palette palette;
      for (const Colours &members : ofSet) {
        addColourOf(members, palette, signatures);
      }
    }
    for (auto [stage, other] : neighbours) {
      for (uint32_t device = 0; device < perStage; ++device) {
        const uint32_t rank = stage * perStage + device, peer = other * perStage + device;
        signatures[rank].push_back(colours[peer]);
        signatures[rank].push_back(machine.hostOf(rank) == machine.hostOf(peer));
        signatures[rank].push_back(machine.podOf(rank) == machine.podOf(peer));
      }
    }
    Palette ofPools, ofPods, all;
    for (const Colours &members : pools) {
      addColourOf(members, ofPools, signatures);
    }
    for (const Colours &members : pods) {
      addColourOf(members, ofPods, signatures);
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      colours[rank] = all.colourOf(signatures[rank]);
    }
    number = all.size();
  }

  // Collects the places of different content, and gives each class that of its ranks.
  void describePlaces(const std::vector<Colours> &places, uint32_t RankClasses::Class::*place, std::vector<RankClasses::Content> &found,
                      RankClasses &result) const {
    std::map<RankClasses::Content, uint32_t> contents;
    for (const Colours &members : places) {
      std::map<uint32_t, uint32_t> counts;
      for (uint32_t rank : members) {
        ++counts[colours[rank]];
      }
      const RankClasses::Content content(counts.begin(), counts.end());
      const auto [known, isNew] = contents.try_emplace(content, static_cast<uint32_t>(contents.size()));
      if (isNew) {
        found.push_back(content);
      }
      for (auto [colour, count] : content) {
        result.classes[colour].*place = known->second;
      }
    }
  }

  RankClasses describe() const {
    RankClasses result;
    result.ofRank = colours;
    result.classes.resize(number);
    for (uint32_t rank = ranks; rank-- > 0;) {
      RankClasses::Class &each = result.classes[colours[rank]];
      each.stage = rank / perStage;
      each.first = rank;
      ++each.ranks;
    }
    describePlaces(pools, &RankClasses::Class::pool, result.pools, result);
    describePlaces(pods, &RankClasses::Class::pod, result.pods, result);
    for (const std::vector<Colours> &ofSet : groups) {
      std::vector<std::vector<uint32_t>> &ofClass = result.groups.emplace_back(number);
      for (const Colours &members : ofSet) {
        std::set<uint32_t> seen;
        for (uint32_t rank : members) {
          seen.insert(colours[rank]);
        }
        ofClass[*seen.begin()].assign(seen.begin(), seen.end());
        for (uint32_t colour : seen) {
          ofClass[colour] = ofClass[*seen.begin()];
        }
      }
    }
    return result;
  }

  const uint32_t ranks, perStage;
  const SimulatedMachine &machine;
  std::vector<Colours> pools, pods;                   // ranks
  std::vector<std::vector<Colours>> groups;           // by axis set: ranks
  std::set<std::pair<uint32_t, uint32_t>> neighbours; // stages that a channel connects
  Colours colours;                                    // by rank, numbered by the first rank of each
  size_t number = 0;
};

} // namespace

uint64_t RankClasses::countIn(const Content &place, uint32_t rankClass) {
  const auto found = std::find_if(place.begin(), place.end(), [&](const auto &each) { return each.first == rankClass; });
  return found == place.end() ? 0 : found->second;
}

RankClasses classifyRanks(const StepTables &tables, uint32_t ranks, const SimulatedMachine &machine, const std::vector<uint32_t> &alone) {
  std::set<uint32_t> all(alone.begin(), alone.end());
  for (const ashlar_rt_variant &stage : tables.stages) {
    const Mesh mesh(stage);
    for (const TimedProgram &program : tables.programs[stage.stage]) {
      for (const TimedItem &item : program.items) {
        if (item.owner != 0) {
          all.insert(static_cast<uint32_t>(mesh.processOf(static_cast<int>(item.owner) - 1)));
        }
      }
    }
  }
  return Refinement(tables, ranks, machine, all).run();
}

} // namespace ashlar::rt
