// SPDX-License-Identifier: Apache-2.0
//
// See trial_plans.h.

#include "compiler/driver/trial_plans.h"

#include "compiler/planning/forecast.h"
#include "dialects/dist/recompute_rules.h"

using namespace mlir;

namespace ashlar::driver {

FailureOr<std::optional<planning::SyncChoice>> TrialPlans::chooseSync(ModuleOp programs, pipelines::Variant &variant) const {
  if (!planning::choosesGradientSync(job, memoryLimit)) {
    return std::optional<planning::SyncChoice>();
  }
  FailureOr<planning::SyncChoice> choice = planning::chooseGradientSync(programs, memoryLimit, [&]() -> FailureOr<planning::SyncTrial> {
    if (failed(chooseRecompute(programs, variant))) {
      return failure();
    }
    FailureOr<planning::Forecast> planned = planning::forecast(programs.clone(), variant, job);
    return failed(planned) ? FailureOr<planning::SyncTrial>() : planning::SyncTrial{planned->stepPs, planned->leastBytes};
  });
  return failed(choice) ? FailureOr<std::optional<planning::SyncChoice>>() : std::optional<planning::SyncChoice>(*choice);
}

LogicalResult TrialPlans::chooseRecompute(ModuleOp programs, pipelines::Variant &variant) const {
  if (job.recompute() != job::Recompute::AUTO) {
    return success();
  }
  FailureOr<int64_t> moves = planning::findLeastMoves(memoryLimit, [&](int64_t count) {
    variant.recomputeMoves = count;
    return plan(programs, variant);
  });
  variant.recomputeMoves = succeeded(moves) ? *moves : 0;
  return success(succeeded(moves));
}

FailureOr<int64_t> TrialPlans::chooseLoops(function_ref<OwningOpRef<ModuleOp>(int64_t)> train, pipelines::Variant variant) const {
  if (job.recompute() != job::Recompute::AUTO) {
    return 0;
  }
  return planning::findLeastMoves(memoryLimit, [&](int64_t count) -> FailureOr<planning::RecomputeTrial> {
    OwningOpRef<ModuleOp> trained = train(count);
    if (!trained) {
      return failure();
    }
    auto loops = (*trained)->getAttrOfType<IntegerAttr>(dist::kSegmentedLoopsAttr);
    if (!loops || loops.getInt() == 0) {
      return planning::RecomputeTrial();
    }
    FailureOr<planning::RecomputeTrial> planned = planWhole(*trained, variant);
    return failed(planned) ? planned : planning::RecomputeTrial{planned->bytes, loops.getInt()};
  });
}

// Plans the memory of programs on global shapes.
FailureOr<planning::RecomputeTrial> TrialPlans::planWhole(ModuleOp programs, pipelines::Variant &variant) const {
  if (failed(pipelines::inferLayouts(programs, variant, job)) || failed(chooseRecompute(programs, variant))) {
    return failure();
  }
  return plan(programs, variant);
}

// Plans the memory of a copy of programs that have layouts.
FailureOr<planning::RecomputeTrial> TrialPlans::plan(ModuleOp programs, const pipelines::Variant &variant) const {
  FailureOr<planning::Forecast> planned = planning::forecast(programs.clone(), variant, job);
  return failed(planned) ? FailureOr<planning::RecomputeTrial>() : planning::RecomputeTrial{planned->leastBytes, planned->recomputeMoves};
}

} // namespace ashlar::driver
