// SPDX-License-Identifier: Apache-2.0
//
// Reports why a program does not fit a device: the live values at its peak.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_MEMORY_LIMIT_H
#define ASHLAR_PASSES_LOWER_MEMORY_MEMORY_LIMIT_H

#include "passes/lower/memory/memory_use.h"
#include "passes/lower/memory/program.h"

namespace ashlar::lower {

// Fails with an error when `use` is above `limit`. It names the parts, the program with the highest peak, the largest tensors alive there
// (named tensors by their name, others by the module path of the op that computes them), and the fields of the job that would reduce it.
mlir::LogicalResult checkMemoryLimit(mlir::ModuleOp module, const MemoryUse &use, uint64_t limit, const TensorTable &tensors,
                                     llvm::ArrayRef<Program> programs, exec::VariantOp variant);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_MEMORY_LIMIT_H
