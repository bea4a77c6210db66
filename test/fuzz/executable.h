// SPDX-License-Identifier: Apache-2.0
//
// Programs as executables: compiled in this process by the code generator of ashlarc, run by mpirun with one rank for each device (of each
// stage of a pipeline), and compared with the reference interpreter on one rank. A forward program reads and writes .npy files; a training
// program is fed some batches from .npy files and compared by its losses and the parameters it leaves behind.

#ifndef ASHLAR_TEST_FUZZ_EXECUTABLE_H
#define ASHLAR_TEST_FUZZ_EXECUTABLE_H

#include "compiler/reference/interpreter.h"
#include "dialects/exec/exec.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace ashlar::fuzz {

// Compiles `lowered`, made of `program` by pipelines::addLowerPasses for `target`, and runs it, one of the cuda target on the emulator.
// Returns the fault, in one line; "" for none. With a `packFolder` a forward program for one or two devices is not run but kept there, for
// another machine to run: program, in.NAME.npy, out.NAME.npy (the expected results), and the files `tolerance` and `ranks`; other programs
// are left out.
std::string checkExecutable(mlir::ModuleOp program, mlir::ModuleOp lowered, exec::Target target, const std::string &packFolder = "");

// Returns the expected outcome of an executable of the program: the results of @forward, or the losses of some steps and the parameters
// after them.
mlir::FailureOr<std::vector<reference::Tensor>> expectedOutcome(mlir::ModuleOp program, const reference::Observer &observer);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_EXECUTABLE_H
