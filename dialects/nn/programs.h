// SPDX-License-Identifier: Apache-2.0
//
// Programs and their roles. A program is a function with a role (nn.program), or the exec.program that it becomes. Passes ask for the role:
// the name of a program is free, and no decision depends on it.

#ifndef ASHLAR_DIALECTS_NN_PROGRAMS_H
#define ASHLAR_DIALECTS_NN_PROGRAMS_H

#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace ashlar::nn {

// Returns the role of a function or exec.program, with its chunk and round; null without one.
ProgramAttr programOf(mlir::Operation *op);

// Whether a function or exec.program has the role, whatever its chunk and round, joined with others or not.
bool hasRole(mlir::Operation *op, ProgramRole role);

// Whether a program evaluates: the model, or a chunk of it where a pipeline's stages have several.
bool isEvaluation(mlir::Operation *op);

// Whether a step runs a program once, alone or joined with a micro-batch: its preparation and its update.
bool isOncePerStep(mlir::Operation *op);

// Returns the program that has the role alone: not joined with others, of the first chunk and round. Null when the module has none.
mlir::func::FuncOp findProgram(mlir::ModuleOp module, ProgramRole role);

// Returns the program that a model is for: of a training step, else of a run, else of one position of a text. Null where a step has
// several.
mlir::func::FuncOp findMain(mlir::ModuleOp module);

// Returns the usual name of a program, which it has when no other symbol does: "forward" for run, "larger_forward" for larger_run, else the
// name of the role.
llvm::StringRef nameOf(ProgramRole role);

// Returns `name`, or another name made of it where `isTaken`: "weights", "weights.program", "weights.program1", ...
std::string freeName(llvm::StringRef name, llvm::function_ref<bool(llvm::StringRef)> isTaken);

// Returns `name`, or another name made of it where an op of the module other than `self` has it.
std::string freeSymbol(mlir::ModuleOp module, llvm::StringRef name, mlir::Operation *self = nullptr);

// Gives a function of a module a role, and the usual name of it, or a free one.
void setProgram(mlir::func::FuncOp function, ProgramRole role);

// Adds an empty function with a role to the module at the builder's place, with its usual name, or a free one.
mlir::func::FuncOp createProgram(mlir::OpBuilder &builder, mlir::Location loc, ProgramRole role, mlir::FunctionType type);

// Returns the variables that the preparation of a module writes, in its order: each is made of the parameter whose state it is.
llvm::SmallVector<VariableOp> preparedVariables(mlir::ModuleOp module);

// Fails with an error where a function has no role, or two have the same one, chunk and round.
mlir::LogicalResult verifyPrograms(mlir::ModuleOp module);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_PROGRAMS_H
