// SPDX-License-Identifier: Apache-2.0
//
// What depends on the memory plan of complete programs, chosen by planning copies of them: when gradients are reduced, and the amount of
// rematerialization.

#ifndef ASHLAR_COMPILER_DRIVER_TRIAL_PLANS_H
#define ASHLAR_COMPILER_DRIVER_TRIAL_PLANS_H

#include "compiler/job/job.pb.h"
#include "compiler/pipelines/pipelines.h"
#include "compiler/planning/recompute_search.h"
#include "compiler/planning/sync_search.h"

namespace ashlar::driver {

// State: a job and the bytes of a device (0: any number). Each function fails, with an error, where programs cannot be planned.
class TrialPlans {
public:
  TrialPlans(const job::Job &job, int64_t memoryLimit) : job(job), memoryLimit(memoryLimit) {}

  // Chooses when programs with layouts reduce gradients, where the job leaves that open; otherwise returns nothing.
  mlir::FailureOr<std::optional<planning::SyncChoice>> chooseSync(mlir::ModuleOp programs, pipelines::Variant &variant) const;

  // Sets the amount of rematerialization of a variant with these programs, which have layouts, where the job leaves it open.
  mlir::LogicalResult chooseRecompute(mlir::ModuleOp programs, pipelines::Variant &variant) const;

  // Returns how many loops of a model, for the trained programs of it that `train` returns for a number of them, are to be computed again
  // in segments, where the job leaves it open: none if the programs fit without.
  mlir::FailureOr<int64_t> chooseLoops(llvm::function_ref<mlir::OwningOpRef<mlir::ModuleOp>(int64_t)> train,
                                       pipelines::Variant variant) const;

private:
  mlir::FailureOr<planning::RecomputeTrial> planWhole(mlir::ModuleOp programs, pipelines::Variant &variant) const;
  mlir::FailureOr<planning::RecomputeTrial> plan(mlir::ModuleOp programs, const pipelines::Variant &variant) const;

  const job::Job &job;
  int64_t memoryLimit;
};

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_TRIAL_PLANS_H
