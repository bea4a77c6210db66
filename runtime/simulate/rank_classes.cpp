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
  Refinement(const StepTables &tables, uint32_t ranks, uint64_t ranksPerHost, const std::set<uint32_t> &alone)
      : ranks(ranks), perStage(ranks / tables.stages.size()), ranksPerHost(ranksPerHost) {
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
  uint32_t hostOf(uint32_t rank) const { return static_cast<uint32_t>(rank / ranksPerHost); }

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
        signatures[rank].push_back(hostOf(rank) == hostOf(peer));
      }
    }
    Palette ofHosts, all;
    for (const Colours &members : hosts()) {
      addColourOf(members, ofHosts, signatures);
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      colours[rank] = all.colourOf(signatures[rank]);
    }
    number = all.size();
  }

  std::vector<Colours> hosts() const {
    std::vector<Colours> found(hostOf(ranks - 1) + 1);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      found[hostOf(rank)].push_back(rank);
    }
    return found;
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
    std::map<std::vector<std::pair<uint32_t, uint32_t>>, uint32_t> contents;
    for (const Colours &members : hosts()) {
      std::map<uint32_t, uint32_t> counts;
      for (uint32_t rank : members) {
        ++counts[colours[rank]];
      }
      const std::vector<std::pair<uint32_t, uint32_t>> content(counts.begin(), counts.end());
      const auto [found, isNew] = contents.try_emplace(content, static_cast<uint32_t>(contents.size()));
      if (isNew) {
        result.hosts.push_back(content);
      }
      for (auto [colour, count] : content) {
        result.classes[colour].host = found->second;
      }
    }
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
  const uint64_t ranksPerHost;
  std::vector<std::vector<Colours>> groups;           // by axis set: ranks
  std::set<std::pair<uint32_t, uint32_t>> neighbours; // stages that a channel connects
  Colours colours;                                    // by rank, numbered by the first rank of each
  size_t number = 0;
};

} // namespace

RankClasses classifyRanks(const StepTables &tables, uint32_t ranks, uint64_t ranksPerHost, const std::vector<uint32_t> &alone) {
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
  return Refinement(tables, ranks, ranksPerHost, all).run();
}

} // namespace ashlar::rt
