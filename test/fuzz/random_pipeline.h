// SPDX-License-Identifier: Apache-2.0
//
// Pipelines of random training programs, as an attribute of their modules.

#ifndef ASHLAR_TEST_FUZZ_RANDOM_PIPELINE_H
#define ASHLAR_TEST_FUZZ_RANDOM_PIPELINE_H

#include "compiler/pipelines/pipelines.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace ashlar::fuzz {

// Attribute of modules: the stages that the program is cut into (dictionary of the i64 `stages`, `chunks` and `micro_batches` and the
// string `schedule`).
inline constexpr llvm::StringLiteral kPipelineAttr = "fuzz.pipeline";

// Attribute of modules whose stages are on a host each, with slow links between: what all devices of a group hold then travels in shards.
inline constexpr llvm::StringLiteral kHostsApartAttr = "fuzz.hosts_apart";

// Returns the pipeline of a program; nothing when it has none.
std::optional<pipelines::Stages> pipelineOf(mlir::ModuleOp program);

// Gives a program a pipeline.
void setPipeline(mlir::ModuleOp program, const pipelines::Stages &pipeline);

// Makes it a whole program again.
void dropPipeline(mlir::ModuleOp program);

// Has three in four of the training programs that accumulate run as a pipeline, by dice of its own: 2 to 4 stages, every schedule, 2 or 3
// chunks a stage with INTERLEAVED, up to 3 micro-batches more than stages; where ops have module paths, half of them with rules about the
// stages of some modules. Leaves out what a pipeline cannot have, another order of the ranks. Programs whose parameters have owners get
// none.
void drawPipeline(uint64_t seed, mlir::ModuleOp program);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_RANDOM_PIPELINE_H
