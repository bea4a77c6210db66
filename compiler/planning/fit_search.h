// SPDX-License-Identifier: Apache-2.0
//
// The memory limit of a search for layouts, such that the whole program fits a device.

#ifndef ASHLAR_COMPILER_PLANNING_FIT_SEARCH_H
#define ASHLAR_COMPILER_PLANNING_FIT_SEARCH_H

#include "compiler/job/job.pb.h"
#include "compiler/pipelines/pipelines.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace ashlar::driver {

// Returns the limit that a search for layouts keeps, bytes of a device, 0: any number. With `recompute: AUTO` it knows none: what is
// computed again makes the program fit.
int64_t searchLimit(const job::Job &job, int64_t memoryLimit);

// Sets the limit of a variant's search. The search knows of parameters, state, inputs, outputs and intermediate values; a program holds
// more, such as constants and batches. By as much as `bytesOf`, which lays the program out with that limit, is above `limit`, the search
// gets less, until the program fits, or it is clear that none does. Then data parallelism is tried in its place, and taken if the program
// needs less so. Calls `bytesOf` at least once, the last time for what is left. Fails when that does.
mlir::LogicalResult fitSearch(pipelines::Variant &variant, int64_t limit, llvm::function_ref<mlir::FailureOr<uint64_t>()> bytesOf);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_PLANNING_FIT_SEARCH_H
