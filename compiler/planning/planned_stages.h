// SPDX-License-Identifier: Apache-2.0
//
// The facts of a variant once its tables are planned: memory, and the step of a pipeline.

#ifndef ASHLAR_COMPILER_PLANNING_PLANNED_STAGES_H
#define ASHLAR_COMPILER_PLANNING_PLANNED_STAGES_H

#include "compiler/job/job.pb.h"
#include "compiler/pipelines/pipelines.h"
#include "compiler/report/pipeline_facts.h"
#include "passes/lower/memory/memory_use.h"

namespace ashlar::planning {

// Returns the tables of a planned module of one variant: one, or one a stage, in their order.
llvm::SmallVector<exec::VariantOp> tablesOf(mlir::ModuleOp planned);

// Returns the memory of a rank of each of them.
std::vector<lower::MemoryUse> countMemory(mlir::ModuleOp planned, const pipelines::Variant &variant);

// Returns the facts of a pipeline, with the cost of messages between its stages on the job's machine; nothing for a variant that has none.
std::optional<report::PipelineFacts> describePipeline(mlir::ModuleOp planned, const pipelines::Variant &variant, const job::Job &job);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_PLANNED_STAGES_H
