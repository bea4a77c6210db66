// SPDX-License-Identifier: Apache-2.0
//
// Repeats written out, for passes that do not know them.

#ifndef ASHLAR_PASSES_TRAIN_UNROLL_REPEATS_H
#define ASHLAR_PASSES_TRAIN_UNROLL_REPEATS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::train {

// Replaces all repeats of a function, nested ones too, by their iterations, one after the other.
void unrollRepeats(mlir::func::FuncOp function);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_UNROLL_REPEATS_H
