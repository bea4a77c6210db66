// SPDX-License-Identifier: Apache-2.0
//
// The purposes of programs, by their names.

#ifndef ASHLAR_DIALECTS_NN_PROGRAMS_H
#define ASHLAR_DIALECTS_NN_PROGRAMS_H

#include "dialects/nn/nn.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::nn {

// Whether a program evaluates: eval_step, or a chunk of it (eval_step_1) where a pipeline's stages have several.
inline bool isEvaluation(llvm::StringRef program) {
  return program.consume_front(kEvalStep) && (program.empty() || program.starts_with("_"));
}

// Whether a program is what a step does once, alone or joined with a micro-batch ("prepare", "train_step+update").
inline bool isOncePerStep(llvm::StringRef program) {
  return program.starts_with(kPrepare) || program.starts_with(kUpdate) || program.contains('+');
}

// Returns the variables that @prepare of a module writes, in its order: each is made of the parameter whose state it is.
llvm::SmallVector<VariableOp> preparedVariables(mlir::ModuleOp module);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_PROGRAMS_H
