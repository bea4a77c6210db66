// SPDX-License-Identifier: Apache-2.0
//
// Ranks that do the same at the same time: a simulation follows one of each class.

#ifndef ASHLAR_RUNTIME_SIMULATE_RANK_CLASSES_H
#define ASHLAR_RUNTIME_SIMULATE_RANK_CLASSES_H

#include "runtime/simulate/machine.h"
#include "runtime/simulate/step_tables.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace ashlar::rt {

// The classes of all ranks: the coarsest partition in which ranks of one class have equal tables, for each axis set of collectives groups
// of equal classes, peers of equal classes in each other stage, and pools of adapters and pods of equal classes. So they see the same
// events, at the same times. Example: stages of dp 4 x tp 2 -> a class a stage; with a slow rank 5 of the first stage: it, its partner in
// tp, its partners in dp, the others; and as many in the other stages, where each has its peers.
struct RankClasses {
  struct Class {
    uint32_t stage, first; // the smallest rank
    uint32_t ranks;        // how many
    uint32_t pool, pod;    // indices into pools and pods
  };

  // The ranks of a place, {class, ranks}.
  using Content = std::vector<std::pair<uint32_t, uint32_t>>;

  // Returns how many ranks of a class a place has.
  static uint64_t countIn(const Content &place, uint32_t rankClass);

  std::vector<uint32_t> ofRank;
  std::vector<Class> classes; // by their first rank

  // Pools of ranks that share adapters (SimulatedMachine::poolOf), and pods, of different content.
  std::vector<Content> pools, pods;

  // [axis set][class]: the classes in the class's group, rising.
  std::vector<std::vector<std::vector<uint32_t>>> groups;
};

// Partitions so many ranks. `alone`: ranks that differ from all others; so does a rank that alone runs an instruction.
RankClasses classifyRanks(const StepTables &tables, uint32_t ranks, const SimulatedMachine &machine, const std::vector<uint32_t> &alone);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_RANK_CLASSES_H
