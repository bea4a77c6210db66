// SPDX-License-Identifier: Apache-2.0
//
// When the gradients of micro-batches are reduced, by time and memory (job: gradient_sync: AUTO).

#ifndef ASHLAR_COMPILER_PLANNING_SYNC_SEARCH_H
#define ASHLAR_COMPILER_PLANNING_SYNC_SEARCH_H

#include "compiler/job/job.pb.h"
#include "compiler/report/layout_report.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ashlar::planning {

// The cost of a program with one of the two.
struct SyncTrial {
  int64_t stepPs = 0;
  uint64_t bytes = 0; // of a rank
};

// Both programs, and the one to take.
struct SyncChoice {
  SyncTrial once, inEach; // gradients reduced once a step; those whose terms take more memory than their sum's part, in each micro-batch
  bool takesOnce = false;
};

// Returns whether a checked job leaves it to the compiler: there are micro-batches, the optimizer's level shards the sums of gradients, so
// that terms take more memory, and the memory of a device has a limit in bytes (0: it has none, and the lesser is taken).
bool choosesGradientSync(const job::Job &job, int64_t memoryLimit);

// Has `programs` reduce gradients once a step, where that keeps the limit and is predicted to be faster; else leaves them alone. `plan`
// returns the cost of the programs as they are, and does not change them; it is called for those taken last. Fails when it does.
mlir::FailureOr<SyncChoice> chooseGradientSync(mlir::ModuleOp programs, uint64_t limit,
                                               llvm::function_ref<mlir::FailureOr<SyncTrial>()> plan);

// Returns the choice for a report.
report::GradientSyncFact describeSync(const SyncChoice &choice);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_SYNC_SEARCH_H
