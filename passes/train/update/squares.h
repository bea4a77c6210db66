// SPDX-License-Identifier: Apache-2.0
//
// Sums of squares, for norms.

#ifndef ASHLAR_PASSES_TRAIN_UPDATE_SQUARES_H
#define ASHLAR_PASSES_TRAIN_UPDATE_SQUARES_H

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Value.h"

namespace ashlar::train {

// Returns the sum of the squares of all elements of a tensor, a scalar of its type: first the sum of each row, in parallel, then the sum of
// the rows. Devices with shards add them up, since these are sums like any other.
mlir::Value sumOfSquares(mlir::ImplicitLocOpBuilder &builder, mlir::Value tensor);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_UPDATE_SQUARES_H
