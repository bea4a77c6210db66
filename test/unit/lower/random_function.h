// SPDX-License-Identifier: Apache-2.0
//
// Random nn functions, for tests that compare a function before and after passes.

#ifndef ASHLAR_TEST_UNIT_LOWER_RANDOM_FUNCTION_H
#define ASHLAR_TEST_UNIT_LOWER_RANDOM_FUNCTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <random>

namespace ashlar::test {

// Adds a function @`name` of `numOps` random nn ops in f64 to `module`: element-wise, views, reductions of every kind, softmax, losses,
// products. Values stay small (every op is bounded), so that errors do not grow; everything unused is returned.
mlir::func::FuncOp addRandomFunction(mlir::ModuleOp module, llvm::StringRef name, int numOps, std::mt19937_64 &random);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_LOWER_RANDOM_FUNCTION_H
