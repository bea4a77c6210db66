// SPDX-License-Identifier: Apache-2.0
//
// See sync_search.h.

#include "compiler/planning/sync_search.h"

#include "compiler/job/job.h"
#include "dialects/dist/dist.h"

using namespace mlir;

namespace ashlar::planning {

bool choosesGradientSync(const job::Job &job, int64_t memoryLimit) {
  constexpr int64_t kLeastLevel = 2; // that shards the sums
  return memoryLimit > 0 && job.gradient_sync() == job::GradientSync::AUTO && job::microBatches(job) > 1 &&
         job.optimizer_parallel().level() >= kLeastLevel;
}

FailureOr<SyncChoice> chooseGradientSync(ModuleOp programs, uint64_t limit, function_ref<FailureOr<SyncTrial>()> plan) {
  MLIRContext *context = programs.getContext();
  context->loadDialect<dist::DistDialect>();
  FailureOr<SyncTrial> inEach = plan();
  programs->setAttr(dist::kGradientSyncAttr, dist::GradientSyncAttr::get(context, dist::GradientSync::Step));
  FailureOr<SyncTrial> once = plan();
  if (failed(inEach) || failed(once)) {
    return failure();
  }
  SyncChoice choice{*once, *inEach, once->bytes <= limit && once->stepPs < inEach->stepPs};
  if (!choice.takesOnce) {
    programs->removeAttr(dist::kGradientSyncAttr);
    return failed(plan()) ? FailureOr<SyncChoice>() : choice;
  }
  return choice;
}

report::GradientSyncFact describeSync(const SyncChoice &choice) {
  auto fact = [](const char *name, const SyncTrial &trial) {
    return report::StrategyFact{name, trial.stepPs, static_cast<int64_t>(trial.bytes)};
  };
  return {{fact("reduced once a step", choice.once), fact("reduced in each micro-batch", choice.inEach)}, choice.takesOnce ? 0U : 1U};
}

} // namespace ashlar::planning
