// SPDX-License-Identifier: Apache-2.0
//
// The memory limit of a search for layouts, such that the whole program fits a device.

#ifndef ASHLAR_COMPILER_PLANNING_FIT_SEARCH_H
#define ASHLAR_COMPILER_PLANNING_FIT_SEARCH_H

#include "compiler/job/job.pb.h"
#include "compiler/pipelines/pipelines.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace ashlar::planning {

// Returns the memory limit of a search for layouts, bytes of a device, 0: any number. With `recompute: AUTO` there is none:
// rematerialization makes the program fit.
int64_t searchLimit(const job::Job &job, int64_t memoryLimit);

// The memory of a device.
struct PlannedBytes {
  uint64_t whole = 0;   // of the program
  uint64_t counted = 0; // the part of it that the search for layouts counts, as that predicted it
};

// Reads what the search of a variant left in a module: notes in the variant whether the clock ended it, and returns the bytes of a device,
// of the average stage, that it counted; 0 without a search.
uint64_t noteSearch(pipelines::Variant &variant, mlir::ModuleOp laidOut);

// Gives the search of a variant a limit with which the whole program fits. The search counts parameters, state, inputs, outputs and
// intermediate values; a program holds more, such as constants, batches and workspaces. `plan` lays the program out. Where it exceeds
// `limit`, the search is done again with the difference as a constant of its own (Search::uncountedBytes), which settles it unless other
// layouts hold more besides: then once more with that. Where no layouts of the search fit, data parallelism is taken if the program needs
// less with it. Calls `plan` at least once, the last time for the result. Fails when that does.
mlir::LogicalResult fitSearch(pipelines::Variant &variant, int64_t limit, llvm::function_ref<mlir::FailureOr<PlannedBytes>()> plan);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_FIT_SEARCH_H
