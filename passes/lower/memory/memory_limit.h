// SPDX-License-Identifier: Apache-2.0
//
// Says why a program does not fit a device: what is alive where it needs most.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_MEMORY_LIMIT_H
#define ASHLAR_PASSES_LOWER_MEMORY_MEMORY_LIMIT_H

#include "passes/lower/memory/program.h"

namespace ashlar::lower {

// What the devices of one process hold.
struct MemoryUse {
  uint64_t arenaBytes = 0; // of one device
  uint64_t devices = 1;
  uint64_t constantBytes = 0;

  uint64_t bytes() const { return arenaBytes * devices + constantBytes; }
};

// Fails with an error when `use` is above `limit`. It names the program that needs most, and the largest tensors alive at its peak: named
// tensors by their name, others by the module path of the op that computes them.
mlir::LogicalResult checkMemoryLimit(mlir::ModuleOp module, const MemoryUse &use, uint64_t limit, const TensorTable &tensors,
                                     llvm::ArrayRef<Program> programs);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_MEMORY_LIMIT_H
