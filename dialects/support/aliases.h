// SPDX-License-Identifier: Apache-2.0
//
// Values that are other names of the same bytes, by the trait AliasesOperands: a reshape moves nothing, and neither does waiting for a
// collective.

#ifndef ASHLAR_DIALECTS_SUPPORT_ALIASES_H
#define ASHLAR_DIALECTS_SUPPORT_ALIASES_H

#include "mlir/IR/Value.h"

namespace ashlar {

// Returns whether each result of the op is another name of the bytes of the operand with its number.
bool aliasesOperands(mlir::Operation *op);

// Returns the value that `value` is another name of, itself where it has bytes of its own. For example, %x for %z:
//   %y = nn.reshape %x : ...
//   %z = dist.after %y, %event : ...
mlir::Value getStorageRoot(mlir::Value value);

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_ALIASES_H
