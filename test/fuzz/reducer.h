// SPDX-License-Identifier: Apache-2.0
//
// From a failing program to a small one that still fails: whatever can be left out is left out, one thing at a time, as long as the failure
// stays. The result is a local minimum: no single step makes it smaller.

#ifndef ASHLAR_TEST_FUZZ_REDUCER_H
#define ASHLAR_TEST_FUZZ_REDUCER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace ashlar::fuzz {

// Returns a smaller program for which `stillFails` holds, as it does for `program`. `stillFails` gets modules that verify. The steps, each
// repeated until none applies:
//   leave out a function, a result, a write; return what is written; return an earlier value; leave out an op: replaced by an operand of
//   its type, or by a new argument of its function; leave out a layout, or an axis from one dim of it; an axis of the mesh, or make it
//   smaller; make a dim size smaller wherever it stands; constants with equal elements.
// Costs a number of checks about linear in the ops that remain after each round; rounds are few.
mlir::OwningOpRef<mlir::ModuleOp> reduceProgram(mlir::ModuleOp program, llvm::function_ref<bool(mlir::ModuleOp)> stillFails);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_REDUCER_H
