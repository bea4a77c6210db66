// SPDX-License-Identifier: Apache-2.0
//
// Saved strategies: the layout of every value of a module of programs, as a job fragment. A compilation that is given one has nothing left
// to infer, so it ends in the same executable.

#ifndef ASHLAR_COMPILER_STRATEGY_STRATEGY_H
#define ASHLAR_COMPILER_STRATEGY_STRATEGY_H

#include "compiler/job/job.pb.h"
#include "dialects/dist/dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Error.h"

#include <string>

namespace ashlar::strategy {

// Reads the strategy out of a module on global shapes. Assumes the output of ashlar-propagate-layouts.
job::Strategy readStrategy(mlir::ModuleOp module);

// Gives the values of a module that was not propagated yet the layouts of the strategy; a mesh axis that the strategy cuts is cut. The
// strategy must belong to this very module: a tensor or op that is missing on either side, or has another type, is an error, which names
// the first.
mlir::LogicalResult applyStrategy(mlir::ModuleOp module, const job::Strategy &strategy);

#define GEN_PASS_DECL
#include "compiler/strategy/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/strategy/passes.h.inc"

// Creates ashlar-apply-strategy for a strategy that is there already. It keeps a copy.
std::unique_ptr<mlir::Pass> createApplyStrategyPass(const job::Strategy &strategy);

// Returns the text of a file with the strategy: a job with this field, and the fields of `found`.
std::string printStrategy(const job::Strategy &strategy, const job::Job &found = {});

// Returns the fields of a job that a search for the mesh sets, and a saved strategy keeps: mesh, pipeline, accumulate,
// optimizer_parallel and recompute.
job::Job foundFields(const job::Job &job);

// Reads such a file.
llvm::Expected<job::Job> loadStrategy(llvm::StringRef path);

} // namespace ashlar::strategy

#endif // ASHLAR_COMPILER_STRATEGY_STRATEGY_H
