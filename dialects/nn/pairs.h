// SPDX-License-Identifier: Apache-2.0
//
// Two tensors of one type as one, along a new dim 0: a mean and a variance, or two sums whose parts one collective is to combine.

#ifndef ASHLAR_DIALECTS_NN_PAIRS_H
#define ASHLAR_DIALECTS_NN_PAIRS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ashlar::nn {

// Returns the tensor (2, dims of x...) with x at 0 and y at 1.
mlir::Value pairUp(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y);

// Returns what stands at `part`, 0 or 1, of a pair.
mlir::Value partOf(mlir::ImplicitLocOpBuilder &b, mlir::Value pair, int64_t part);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_PAIRS_H
