// SPDX-License-Identifier: Apache-2.0
//
// The uses of a value under all of its names.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_STORAGE_USES_H
#define ASHLAR_PASSES_LOWER_MEMORY_STORAGE_USES_H

#include "mlir/IR/Value.h"

namespace ashlar::lower {

// Appends the uses of the bytes of `value`: its own, and those of the values that are other names of it (dialects/support/aliases.h).
// Making another name is no use, except by an instruction: the wait for a collective.
void collectStorageUses(mlir::Value value, llvm::SmallVectorImpl<mlir::OpOperand *> &uses);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_STORAGE_USES_H
