// SPDX-License-Identifier: Apache-2.0
//
// What one seed stands for: a random mesh, a random model, the programs the compiler makes of it, and random layouts on their variables,
// arguments, results and ops. For half of the seeds layouts may split sizes that the axes do not divide.

#ifndef ASHLAR_TEST_FUZZ_RANDOM_PROGRAM_H
#define ASHLAR_TEST_FUZZ_RANDOM_PROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace ashlar::fuzz {

// Attribute of modules: variables without a layout are split by inference (unit).
inline constexpr llvm::StringLiteral kSplitVariablesAttr = "fuzz.split_variables";

struct ProgramOptions {
  // Half of the forward programs in f32: for executables; the interpreter alone says more in f64. In f32 some steps of training may take
  // rounding over a jump (a comparison, a maximum), after which nothing can be compared.
  bool f32Allowed = false;

  // A third of the forward programs in mixed precision, bf16 and f16 in turn. Nothing that is computed decides anything in them.
  bool narrowAllowed = false;
};

// Returns the module of a seed: a dist.mesh, @init, and either @forward or @train_step and @eval_step (half of the seeds each), as
// pipelines::addTrainPasses leaves them. Null, after an error was emitted, when those passes fail.
mlir::OwningOpRef<mlir::ModuleOp> randomProgram(mlir::MLIRContext &context, uint64_t seed, const ProgramOptions &options);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_RANDOM_PROGRAM_H
