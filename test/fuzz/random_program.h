// SPDX-License-Identifier: Apache-2.0
//
// The program of a seed: a random mesh, a random model, the programs the compiler makes of it, and random layouts on their variables,
// arguments, results and ops. For half of the seeds layouts may shard sizes that the axes do not divide.

#ifndef ASHLAR_TEST_FUZZ_RANDOM_PROGRAM_H
#define ASHLAR_TEST_FUZZ_RANDOM_PROGRAM_H

#include "compiler/job/job.pb.h"
#include "dialects/exec/exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace ashlar::fuzz {

// Attribute of modules: variables without a layout are split by inference (unit).
inline constexpr llvm::StringLiteral kSplitVariablesAttr = "fuzz.split_variables";

// Attribute of modules: level, threshold in bytes and shard size of optimizer parallelism (array of i64).
inline constexpr llvm::StringLiteral kOptimizerParallelAttr = "fuzz.optimizer_parallel";

// Attribute of modules: each parameter has an owner (unit).
inline constexpr llvm::StringLiteral kGroupWeightsAttr = "fuzz.group_weights";

// Attribute of modules: small values are computed in blocks, too (unit).
inline constexpr llvm::StringLiteral kCutsSmallAttr = "fuzz.cuts_small";

// Attribute of modules: the fusion of collectives whose parameters have no ids, as ashlar-fuse-collectives takes it: array of three
// strings, of all-reduce, all-gather and reduce-scatter.
inline constexpr llvm::StringLiteral kCommFusionModesAttr = "fuzz.comm_fusion";

// Attribute of modules: how many of the moves by cost ashlar-recompute makes (i64).
inline constexpr llvm::StringLiteral kRecomputeMovesAttr = "fuzz.recompute_moves";

struct ProgramOptions {
  // A quarter of the programs in f32, and a quarter in mixed precision, bf16 and f16 in turn; one in sixteen on larger tensors. Nothing
  // that is computed decides anything in mixed precision. Without this all are small and f64, in which a fault is the largest multiple of
  // rounding; then a seed stands for the same program but for sizes and precision.
  bool varied = false;

  exec::Target target = exec::Target::Cpu; // what it runs decides whether programs keep their repeats
};

// A model, and its job.
struct RandomModel {
  mlir::OwningOpRef<mlir::ModuleOp> module; // @forward and its variables
  job::Job job;
};

// Returns the model of a seed, before any pass. Half of the jobs train.
RandomModel randomModel(mlir::MLIRContext &context, uint64_t seed, const ProgramOptions &options);

// Returns the module of a seed: a dist.mesh, @init, and either @forward or @train_step and @eval_step (half of the seeds each), as
// pipelines::addTrainPasses leaves them. Null, after an error was emitted, when those passes fail.
mlir::OwningOpRef<mlir::ModuleOp> randomProgram(mlir::MLIRContext &context, uint64_t seed, const ProgramOptions &options);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_RANDOM_PROGRAM_H
