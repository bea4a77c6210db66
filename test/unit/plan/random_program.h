// SPDX-License-Identifier: Apache-2.0
//
// Random programs in the form of the memory planner's input, and their results in symbols.

#ifndef ASHLAR_TEST_UNIT_PLAN_RANDOM_PROGRAM_H
#define ASHLAR_TEST_UNIT_PLAN_RANDOM_PROGRAM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <random>
#include <string>

namespace ashlar::test {

// Returns the text of a module with variables @v0.., and @train_step of about `ops` fusions, products, collectives, reshapes, reads and
// writes. A variable's old value may be used after its new one was written. `mesh` is one axis "dp" of size 2.
std::string randomProgram(std::mt19937_64 &random, int ops);

// The effects of a program: the symbol of each variable and output by name. A symbol stands for how a value was computed.
using Effects = std::map<std::string, uint64_t>;

// Returns the symbol of a variable or input before the program.
uint64_t initialSymbol(llvm::StringRef name);

// Returns the symbol of result `result` of an op applied to operands.
uint64_t applySymbol(mlir::Operation *op, llvm::ArrayRef<uint64_t> operands, unsigned result);

// Executes the function on tensors, in symbols.
Effects effectsOnTensors(mlir::func::FuncOp function);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_PLAN_RANDOM_PROGRAM_H
