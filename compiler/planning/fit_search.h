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

// Notes in a variant whether the clock ended its search for the layouts of a module.
void noteStopped(pipelines::Variant &variant, mlir::ModuleOp laidOut);

// Sets the limit of a variant's search. The search covers parameters, state, inputs, outputs and intermediate values; a program holds more,
// such as constants and batches. The limit of the search shrinks by the excess of `bytesOf`, which lays the program out with that limit,
// over `limit`, until the program fits, or it is clear that none does. Then data parallelism is tried instead, and taken if the program
// needs less with it. Calls `bytesOf` at least once, the last time for the result. Fails when that does.
mlir::LogicalResult fitSearch(pipelines::Variant &variant, int64_t limit, llvm::function_ref<mlir::FailureOr<uint64_t>()> bytesOf);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_FIT_SEARCH_H
