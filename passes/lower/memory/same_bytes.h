// SPDX-License-Identifier: Apache-2.0
//
// Values that are the same bytes: a reshape moves nothing, and neither does waiting for a collective.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_SAME_BYTES_H
#define ASHLAR_PASSES_LOWER_MEMORY_SAME_BYTES_H

#include "mlir/IR/Value.h"

namespace ashlar::lower {

// Returns whether each result of the op is the same bytes as the operand of the same number.
bool hasBytesOfOperand(mlir::Operation *op);

// Returns the value whose bytes `value` is.
mlir::Value rootOf(mlir::Value value);

// Appends the uses of a value, of its reshapes, and of it when it has been waited for.
void collectUses(mlir::Value value, llvm::SmallVectorImpl<mlir::OpOperand *> &uses);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_SAME_BYTES_H
