// SPDX-License-Identifier: Apache-2.0
//
// Orders are built and proven by running them.

#include "passes/stage/schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <map>

namespace ashlar::stage {
namespace {

constexpr int64_t kUnit = 1; // of the clock: a forward phase, or half of a backward pass

// How many actions a repetition may have: those of a steady state are few.
constexpr int64_t kLongestBody = 64;

// All stages of a pipeline on one clock.
class Clock {
public:
  Clock(const SchedulePolicy &policy, int64_t stages, int64_t microBatches)
      : policy(policy), stages(stages), microBatches(microBatches), orders(stages), free(stages, 0), next(stages) {
    for (StepPhase phase : policy.preference) {
      ends[phase].assign(stages, std::vector<int64_t>(microBatches, kNever));
    }
  }

  StageOrders run() {
    const size_t all = policy.preference.size() * microBatches;
    for (int64_t now = 0; llvm::any_of(orders, [&](const auto &order) { return order.size() < all; }); ++now) {
      for (int64_t stage = 0; stage < stages; ++stage) {
        if (free[stage] <= now) {
          runFirst(stage, now);
        }
      }
    }
    return std::move(orders);
  }

private:
  static constexpr int64_t kNever = INT64_MAX;

  int64_t duration(StepPhase phase) const { return phase == StepPhase::Backward && !policy.splitsBackward() ? 2 * kUnit : kUnit; }

  // Whether another micro-batch may begin. Those whose gradient a stage waits for are as many as there are stages from it on; with those of
  // which only the gradients of weights are missing they are one more than there are stages.
  bool hasRoom(int64_t stage) {
    auto missing = [&](StepPhase phase) { return next[stage][StepPhase::Forward] - next[stage][phase]; };
    return !policy.boundsMemory ||
           (missing(StepPhase::Backward) < stages - stage && (!policy.splitsBackward() || missing(StepPhase::Weights) <= stages));
  }

  bool hasEnded(StepPhase phase, int64_t stage, int64_t microBatch, int64_t now) { return ends[phase][stage][microBatch] <= now; }

  bool canRun(StepPhase phase, int64_t stage, int64_t now) {
    int64_t microBatch = next[stage][phase];
    if (microBatch == microBatches) {
      return false;
    }
    switch (phase) {
    case StepPhase::Forward:
      return hasRoom(stage) && (stage == 0 || hasEnded(StepPhase::Forward, stage - 1, microBatch, now));
    case StepPhase::Backward:
      return hasEnded(StepPhase::Forward, stage, microBatch, now) &&
             (stage + 1 == stages || hasEnded(StepPhase::Backward, stage + 1, microBatch, now));
    case StepPhase::Weights:
      return hasEnded(StepPhase::Backward, stage, microBatch, now);
    }
    llvm_unreachable("unknown phase");
  }

  // Runs what the policy prefers of what can run, if anything can.
  void runFirst(int64_t stage, int64_t now) {
    for (StepPhase phase : policy.preference) {
      if (canRun(phase, stage, now)) {
        int64_t microBatch = next[stage][phase]++;
        orders[stage].push_back({phase, microBatch});
        free[stage] = ends[phase][stage][microBatch] = now + duration(phase);
        return;
      }
    }
  }

  const SchedulePolicy &policy;
  int64_t stages, microBatches;
  StageOrders orders;
  std::vector<int64_t> free; // by stage: when it has ended what it runs
  std::map<StepPhase, std::vector<std::vector<int64_t>>> ends;
  std::vector<std::map<StepPhase, int64_t>> next; // by stage: the micro-batch that each phase comes to next
};

// All stages in their orders, without a clock.
class Execution {
public:
  Execution(const StageOrders &orders, llvm::ArrayRef<Dependence> dependences, llvm::ArrayRef<int64_t> slots)
      : orders(orders), dependences(dependences), slots(slots), at(orders.size(), 0) {
    for (const std::vector<Action> &order : orders) {
      places.emplace_back();
      firsts.emplace_back();
      for (auto [place, action] : llvm::enumerate(order)) {
        places.back()[{action.phase, action.microBatch}] = place;
        firsts.back().try_emplace(action.microBatch, place);
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

  std::optional<Place> findAction(int64_t stage, StepPhase phase, int64_t microBatch) const {
    auto found = places[stage].find({phase, microBatch});
    return found == places[stage].end() ? std::nullopt : std::optional<Place>({static_cast<size_t>(stage), found->second});
  }

  // Returns what the next action of the stage waits for, if anything.
  std::optional<Place> waitsFor(size_t stage) const {
    const Action &action = orders[stage][at[stage]];
    for (const Dependence &needed : dependences) {
      if (needed.stage == static_cast<int64_t>(stage) && needed.phase == action.phase) {
        std::optional<Place> made = findAction(needed.from, needed.producer, action.microBatch);
        if (made && made->place >= at[made->stage]) {
          return made;
        }
      }
    }
    const bool begins = firsts[stage].at(action.microBatch) == at[stage];
    const int64_t before = action.microBatch - slots[stage]; // had the slot
    for (const Dependence &taken : dependences) {
      if (begins && before >= 0 && taken.from == static_cast<int64_t>(stage)) {
        std::optional<Place> taker = findAction(taken.stage, taken.phase, before);
        if (taker && taker->place >= at[taker->stage]) {
          return taker;
        }
      }
    }
    return std::nullopt;
  }

  static std::string describe(const Action &action) {
    return llvm::formatv("{0} of micro-batch {1}", nameOf(action.phase), action.microBatch);
  }

  std::string describe(size_t stage, size_t place) const {
    return llvm::formatv("stage {0} at {1}", stage, describe(orders[stage][place]));
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
  llvm::ArrayRef<Dependence> dependences;
  llvm::ArrayRef<int64_t> slots;                                       // by stage
  std::vector<size_t> at;                                              // by stage: the next action
  std::vector<std::map<std::pair<StepPhase, int64_t>, size_t>> places; // by stage: where each action stands
  std::vector<std::map<int64_t, size_t>> firsts;                       // by stage: where each micro-batch begins
};

// Returns how often the body of `length` actions at `begin` is done, and by how much its micro-batches grow.
std::pair<int64_t, int64_t> repetitions(llvm::ArrayRef<Action> order, int64_t begin, int64_t length) {
  const int64_t size = order.size();
  if (begin + 2 * length > size) {
    return {1, 0};
  }
  const int64_t stride = order[begin + length].microBatch - order[begin].microBatch;
  int64_t end = begin + length;
  while (stride >= 0 && end < size && order[end].phase == order[end - length].phase &&
         order[end].microBatch == order[end - length].microBatch + stride) {
    ++end;
  }
  return {(end - begin) / length, stride};
}

} // namespace

llvm::StringRef nameOf(StepPhase phase) {
  switch (phase) {
  case StepPhase::Forward:
    return "forward";
  case StepPhase::Backward:
    return "backward";
  case StepPhase::Weights:
    return "weights";
  }
  llvm_unreachable("unknown phase");
}

std::optional<SchedulePolicy> SchedulePolicy::find(llvm::StringRef name) {
  constexpr StepPhase F = StepPhase::Forward, B = StepPhase::Backward, W = StepPhase::Weights;
  if (name == "GPIPE") {
    return SchedulePolicy{{F, B}, /*boundsMemory=*/false};
  }
  if (name == "ONE_F_ONE_B") {
    return SchedulePolicy{{B, F}, /*boundsMemory=*/true};
  }
  if (name == "ZERO_BUBBLE") {
    return SchedulePolicy{{B, F, W}, /*boundsMemory=*/true};
  }
  return std::nullopt;
}

StageOrders buildOrders(const SchedulePolicy &policy, int64_t stages, int64_t microBatches) {
  return Clock(policy, stages, microBatches).run();
}

int64_t slotsOf(llvm::ArrayRef<Action> order) {
  std::map<int64_t, size_t> last;
  for (auto [place, action] : llvm::enumerate(order)) {
    last[action.microBatch] = place;
  }
  int64_t slots = 1;
  std::map<int64_t, size_t> open; // micro-batches that have begun and not ended
  for (auto [place, action] : llvm::enumerate(order)) {
    open.try_emplace(action.microBatch, place);
    slots = std::max(slots, action.microBatch - open.begin()->first + 1);
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
  while (true) {
    deadlock = findDeadlock(orders, dependences, slots);
    if (deadlock.empty() || llvm::all_of(slots, [&](int64_t count) { return count >= most; })) {
      return slots;
    }
    for (int64_t &count : slots) { // then nobody waits for a slot that soon
      count = std::min(count + 1, most);
    }
  }
}

FoldedOrder fold(llvm::ArrayRef<Action> order) {
  FoldedOrder folded;
  bool isOpen = false; // the last block takes more actions
  for (int64_t begin = 0; begin < static_cast<int64_t>(order.size());) {
    int64_t bestLength = 1, bestSaved = 0, count = 1, stride = 0;
    for (int64_t length = 1; length <= kLongestBody; ++length) {
      auto [times, grows] = repetitions(order, begin, length);
      if (int64_t saved = (times - 1) * length; times > 1 && saved > bestSaved) {
        bestLength = length, bestSaved = saved, count = times, stride = grows;
      }
    }
    int64_t first = folded.actions.size();
    folded.actions.insert(folded.actions.end(), order.begin() + begin, order.begin() + begin + bestLength);
    if (count == 1 && isOpen) {
      folded.blocks.back().end += bestLength;
    } else {
      folded.blocks.push_back({first, first + bestLength, count, stride});
    }
    isOpen = count == 1;
    begin += bestLength * count;
  }
  return folded;
}

std::vector<Action> unfold(const FoldedOrder &order) {
  std::vector<Action> actions;
  for (const Repetition &block : order.blocks) {
    for (int64_t i = 0; i < block.count; ++i) {
      for (int64_t at = block.begin; at < block.end; ++at) {
        actions.push_back({order.actions[at].phase, order.actions[at].microBatch + i * block.stride});
      }
    }
  }
  return actions;
}

} // namespace ashlar::stage
