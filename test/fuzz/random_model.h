// SPDX-License-Identifier: Apache-2.0
//
// Random models over all nn ops. Two programs that compute one model in another order must stay close, so the generator keeps an upper
// bound of each value and scales what grows, and everything that jumps (comparisons, rounding, maxima once they are differentiated) first
// gets random numbers added, so that few computed values lie near the jump.

#ifndef ASHLAR_TEST_FUZZ_RANDOM_MODEL_H
#define ASHLAR_TEST_FUZZ_RANDOM_MODEL_H

#include "test/fuzz/random_layout.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::fuzz {

struct ModelOptions {
  mlir::Type floatType;             // f32 or f64
  llvm::SmallVector<int64_t> sizes; // dims are drawn from these
  int64_t numOps = 10;
  int64_t maxElements = 300; // of a value that other ops read
  bool jumps = true;         // computed values may decide comparisons and become integers
  bool flat = false;         // a parameter has a gradient that is 0 up to rounding
  int64_t batch = 0;         // dim 0 of every input and of the prediction; 0: no training, any shapes
};

// Adds variables with initial values and a function @forward to the module. For training its one result is the prediction "out": floats,
// rank 2 or more, and everything in the model has a part in it. Otherwise the results are "y0", "y1", ...
void addRandomModel(Dice &dice, mlir::ModuleOp module, const ModelOptions &options);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_RANDOM_MODEL_H
