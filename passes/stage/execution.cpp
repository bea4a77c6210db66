// SPDX-License-Identifier: Apache-2.0
//
// Orders are proven by running them.

#include "passes/stage/execution.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <map>

namespace ashlar::stage {
namespace {

// All stages in their orders, without a clock.
class Execution {
public:
  Execution(const StageOrders &orders, llvm::ArrayRef<Dependence> dependences, llvm::ArrayRef<int64_t> slots)
      : orders(orders), slots(slots), at(orders.size(), 0), sent(orders.size()) {
    for (const std::vector<Action> &order : orders) {
      places.emplace_back();
      firsts.emplace_back();
      for (auto [place, action] : llvm::enumerate(order)) {
        places.back()[{action.part(), action.microBatch}] = place;
        firsts.back().try_emplace(action.microBatch, place);
        chunks = std::max(chunks, action.chunk + 1);
      }
    }
    for (const Dependence &each : dependences) {
      needed[{each.stage, each.part}].push_back(each);
      if (each.from != each.stage) {
        sent[each.from].push_back(each);
      }
    }
  }

  std::string run() {
    bool moves = true;
    while (moves) {
      moves = false;
      for (size_t stage = 0; stage < orders.size(); ++stage) {
        while (at[stage] < orders[stage].size() && !waitsFor(stage)) {
          ++at[stage];
          moves = true;
        }
      }
    }
    auto stuck = llvm::find_if(llvm::seq<size_t>(0, orders.size()), [&](size_t stage) { return at[stage] < orders[stage].size(); });
    return stuck == llvm::seq<size_t>(0, orders.size()).end() ? "" : describeCycle(*stuck);
  }

private:
  // An action that another one waits for, to end or just to begin.
  struct Place {
    size_t stage, place;
  };

  // Returns the action of a stage, if it has not been run.
  std::optional<Place> findOpen(int64_t stage, const Part &part, int64_t microBatch) const {
    auto found = places[stage].find({part, microBatch});
    return found == places[stage].end() || found->second < at[stage] ? std::nullopt
                                                                     : std::optional<Place>({static_cast<size_t>(stage), found->second});
  }

  // Returns what the next action of the stage waits for, if anything.
  std::optional<Place> waitsFor(size_t stage) const {
    const Action &action = orders[stage][at[stage]];
    if (auto found = needed.find({static_cast<int64_t>(stage), action.part()}); found != needed.end()) {
      for (const Dependence &each : found->second) {
        if (std::optional<Place> made = findOpen(each.from, each.producer, action.microBatch)) {
          return made;
        }
      }
    }
    const bool begins = firsts[stage].at(action.microBatch) == at[stage];
    const int64_t before = action.microBatch - slots[stage]; // had the slot
    for (const Dependence &taken : sent[stage]) {
      if (begins && before >= 0) {
        if (std::optional<Place> taker = findOpen(taken.stage, taken.part, before)) {
          return taker;
        }
      }
    }
    return std::nullopt;
  }

  std::string describe(size_t stage, size_t place) const {
    const Action &action = orders[stage][place];
    return llvm::formatv("stage {0} at {1}", stage, describe(action));
  }

  std::string describe(const Action &action) const {
    return llvm::formatv("{0} of micro-batch {1}",
                         Cut{static_cast<int64_t>(orders.size()), chunks}.programName(nameOf(action.phase), action.chunk),
                         action.microBatch);
  }

  // Follows who waits for whom until a stage comes again.
  std::string describeCycle(size_t stage) const {
    std::vector<size_t> chain;
    while (!llvm::is_contained(chain, stage)) {
      chain.push_back(stage);
      stage = waitsFor(stage)->stage;
    }
    chain.erase(chain.begin(), llvm::find(chain, stage));
    std::string text = describe(stage, at[stage]);
    for (size_t each : chain) {
      Place place = *waitsFor(each);
      text += (each == stage ? " waits for " : ", which is at " + describe(orders[each][at[each]]) + " and waits for ") +
              describe(place.stage, place.place);
    }
    return text;
  }

  const StageOrders &orders;
  llvm::ArrayRef<int64_t> slots;                                      // by stage
  std::vector<size_t> at;                                             // by stage: the next action
  std::map<std::pair<int64_t, Part>, std::vector<Dependence>> needed; // by stage and program that takes
  std::vector<std::vector<Dependence>> sent;                          // by stage: what others take of it
  std::vector<std::map<std::pair<Part, int64_t>, size_t>> places;     // by stage: where each action stands
  std::vector<std::map<int64_t, size_t>> firsts;                      // by stage: where each micro-batch begins
  int64_t chunks = 1;
};

} // namespace

int64_t slotsOf(llvm::ArrayRef<Action> order) {
  std::map<int64_t, size_t> last;
  for (auto [place, action] : llvm::enumerate(order)) {
    last[action.microBatch] = place;
  }
  int64_t slots = 1;
  std::map<int64_t, size_t> open; // micro-batches that have begun and not ended
  for (auto [place, action] : llvm::enumerate(order)) {
    open.try_emplace(action.microBatch, place);
    slots = std::max(slots, open.rbegin()->first - open.begin()->first + 1);
    if (last[action.microBatch] == place) {
      open.erase(action.microBatch);
    }
  }
  return slots;
}

std::string findDeadlock(const StageOrders &orders, llvm::ArrayRef<Dependence> dependences, llvm::ArrayRef<int64_t> slots) {
  return Execution(orders, dependences, slots).run();
}

std::vector<int64_t> chooseSlots(const StageOrders &orders, llvm::ArrayRef<Dependence> dependences, std::string &deadlock) {
  std::vector<int64_t> slots;
  int64_t most = 1;
  for (const std::vector<Action> &order : orders) {
    slots.push_back(slotsOf(order));
    for (const Action &action : order) {
      most = std::max(most, action.microBatch + 1);
    }
  }
  deadlock = findDeadlock(orders, dependences, std::vector<int64_t>(orders.size(), most));
  while (deadlock.empty() && !findDeadlock(orders, dependences, slots).empty()) {
    for (int64_t &count : slots) { // then nobody waits for a slot that soon
      count = std::min(count + 1, most);
    }
  }
  return slots;
}

} // namespace ashlar::stage
