// SPDX-License-Identifier: Apache-2.0
//
// Two tensors of one type as one, along a new dim 0: a mean and a variance, or two sums whose parts one collective is to combine.

#ifndef ASHLAR_DIALECTS_NN_PAIRS_H
#define ASHLAR_DIALECTS_NN_PAIRS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ashlar::nn {

// Returns the tensor (2, dims of x...) with x at 0 and y at 1.
mlir::Value pairUp(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y);

// Returns the element at `part`, 0 or 1, of a pair.
mlir::Value partOf(mlir::ImplicitLocOpBuilder &b, mlir::Value pair, int64_t part);

// Returns the source of a slice out of one operand of a concat, or out of a padded tensor, with or without an element-wise op in between: a
// number of a pair that no collective combines, or its gradient. Null for any other `op`. A sum with zeros remains.
//   slice [1:2] (concat(a, b) * 0.5) ==> b * 0.5
mlir::Value takePart(mlir::ImplicitLocOpBuilder &b, mlir::Operation *op);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_PAIRS_H
