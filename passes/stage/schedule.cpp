// SPDX-License-Identifier: Apache-2.0
//
// Orders are built by running them.

#include "passes/stage/schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "passes/stage/stage_enums.cpp.inc"

namespace ashlar::stage {
namespace {

constexpr int64_t kUnit = 1; // of the clock: a forward phase, or half of a backward pass

// All stages of a pipeline on one clock.
class Clock {
public:
  Clock(const SchedulePolicy &policy, const Cut &cut, int64_t microBatches)
      : policy(policy), cut(cut), orders(cut.stages), free(cut.stages, 0), next(cut.stages) {
    for (StepPhase phase : policy.preference) {
      turns[phase] = turnsOf(phase, microBatches);
      ends[phase].assign(cut.virtualStages(), std::vector<int64_t>(microBatches, kNever));
    }
  }

  StageOrders run() {
    const size_t all = policy.preference.size() * turns[StepPhase::Forward].size();
    for (int64_t now = 0; llvm::any_of(orders, [&](const auto &order) { return order.size() < all; }); ++now) {
      bool goesOn = false; // there is a stage at work
      for (int64_t stage = 0; stage < cut.stages; ++stage) {
        goesOn |= free[stage] > now || runFirst(stage, now);
      }
      if (!goesOn) {
        llvm::report_fatal_error("the policy of a schedule has all stages of a pipeline wait");
      }
    }
    return std::move(orders);
  }

private:
  static constexpr int64_t kNever = INT64_MAX;

  // Returns the actions of a phase as they come.
  std::vector<Action> turnsOf(StepPhase phase, int64_t microBatches) const {
    std::vector<Action> found;
    for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) {
      for (int64_t microBatch = 0; microBatch < microBatches; ++microBatch) {
        found.push_back({phase, microBatch, chunk});
      }
    }
    auto keyOf = [&](const Action &action) {
      const int64_t depth = phase == StepPhase::Forward ? action.chunk : cut.chunks - action.chunk;
      return std::tuple(action.microBatch / cut.stages, depth, action.microBatch);
    };
    llvm::sort(found, [&](const Action &a, const Action &b) { return keyOf(a) < keyOf(b); });
    return found;
  }

  int64_t duration(StepPhase phase) const { return phase == StepPhase::Backward && !policy.splitsBackward() ? 2 * kUnit : kUnit; }

  int64_t mostInFlight(int64_t stage) const {
    switch (policy.inFlight) {
    case SchedulePolicy::InFlight::Any:
      return kNever;
    case SchedulePolicy::InFlight::OneWay:
      return cut.stages - stage;
    case SchedulePolicy::InFlight::RoundTrips:
      return 2 * (cut.stages - stage - 1) + (cut.chunks - 1) * cut.stages + 1;
    }
    llvm_unreachable("unknown bound");
  }

  // Returns the number of turns that `phase` is behind `before`.
  int64_t turnsBehind(int64_t stage, StepPhase before, StepPhase phase) {
    return static_cast<int64_t>(next[stage][before] - next[stage][phase]);
  }

  // Whether the gradients of weights may be computed: of the last `stage` micro-batches they are left for the end, where the stages before
  // have as many backward phases to go.
  bool areWeightsDue(int64_t stage) {
    const bool isLast = next[stage][StepPhase::Backward] == turns[StepPhase::Backward].size();
    return isLast || turnsBehind(stage, StepPhase::Backward, StepPhase::Weights) > stage;
  }

  bool hasEnded(StepPhase phase, int64_t virtualStage, int64_t microBatch, int64_t now) {
    return ends[phase][virtualStage][microBatch] <= now;
  }

  bool canRun(const Action &action, int64_t stage, int64_t now) {
    const int64_t at = cut.virtualStage(stage, action.chunk);
    switch (action.phase) {
    case StepPhase::Forward:
      return turnsBehind(stage, StepPhase::Forward, StepPhase::Backward) < mostInFlight(stage) &&
             (at == 0 || hasEnded(StepPhase::Forward, at - 1, action.microBatch, now));
    case StepPhase::Backward:
      return hasEnded(StepPhase::Forward, at, action.microBatch, now) &&
             (at + 1 == cut.virtualStages() || hasEnded(StepPhase::Backward, at + 1, action.microBatch, now));
    case StepPhase::Weights:
      return hasEnded(StepPhase::Backward, at, action.microBatch, now) && areWeightsDue(stage);
    }
    llvm_unreachable("unknown phase");
  }

  // Runs what the policy prefers of what can run. Returns whether anything can.
  bool runFirst(int64_t stage, int64_t now) {
    for (StepPhase phase : policy.preference) {
      size_t &turn = next[stage][phase];
      if (turn < turns[phase].size() && canRun(turns[phase][turn], stage, now)) {
        const Action &action = turns[phase][turn++];
        orders[stage].push_back(action);
        free[stage] = ends[phase][cut.virtualStage(stage, action.chunk)][action.microBatch] = now + duration(phase);
        return true;
      }
    }
    return false;
  }

  const SchedulePolicy &policy;
  const Cut &cut;
  StageOrders orders;
  std::vector<int64_t> free;                                   // by stage: when it has ended what it runs
  std::map<StepPhase, std::vector<Action>> turns;              // the same on all stages
  std::map<StepPhase, std::vector<std::vector<int64_t>>> ends; // by virtual stage and micro-batch
  std::vector<std::map<StepPhase, size_t>> next;               // by stage: the turn that each phase comes to next
};

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

std::string Cut::programName(llvm::StringRef phase, int64_t chunk) const {
  return phase.str() + (chunks == 1 ? "" : "_" + std::to_string(chunk));
}

SchedulePolicy SchedulePolicy::get(Schedule schedule) {
  constexpr StepPhase F = StepPhase::Forward, B = StepPhase::Backward, W = StepPhase::Weights;
  switch (schedule) {
  case Schedule::GPipe:
    return {{F, B}, InFlight::Any};
  case Schedule::OneFOneB:
    return {{B, F}, InFlight::OneWay};
  case Schedule::Interleaved:
    return {{F, B}, InFlight::RoundTrips};
  case Schedule::ZeroBubble:
    return {{W, F, B}, InFlight::OneWay};
  }
  llvm_unreachable("unknown schedule");
}

StageOrders buildOrders(const SchedulePolicy &policy, const Cut &cut, int64_t microBatches) {
  return Clock(policy, cut, microBatches).run();
}

} // namespace ashlar::stage
