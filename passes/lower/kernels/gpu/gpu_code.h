// SPDX-License-Identifier: Apache-2.0
//
// Pieces of code that kernels of the cuda target are made of: the place in the grid, indices, branches, loops, memory and values that
// threads share.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_CODE_H
#define ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_CODE_H

#include "passes/lower/kernels/kernel_nest.h"

namespace ashlar::lower {

class GpuCode : public KernelNest {
public:
  using KernelNest::KernelNest;

protected:
  mlir::Value block, thread;
  int64_t threads = 1; // of a block

  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value scale(mlir::Value value, int64_t by);
  mlir::Value isBelow(mlir::Value value, int64_t limit);
  mlir::Value divide(mlir::Value value, int64_t by);
  mlir::Value remainder(mlir::Value value, int64_t by);
  mlir::Value both(mlir::Value a, mlir::Value b); // of two conditions, null: true

  // Asks for block and thread, and notes the grid.
  void setGrid(int64_t blocks, int64_t threadsABlock);

  // Emits the code of `then` under a condition; null: always.
  void emitIf(mlir::Value condition, llvm::function_ref<void()> then);

  // Emits a loop from `first` below `limit`; `step` maps the carried values to the next ones. Returns the final values.
  llvm::SmallVector<mlir::Value> emitFor(mlir::Value first, mlir::Value limit, int64_t stride, llvm::ArrayRef<mlir::Value> carried,
                                         llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, llvm::ArrayRef<mlir::Value>)> step);

  // Returns the value of the thread of the warp whose number differs in the bit `distance`.
  mlir::Value shuffle(mlir::Value value, int64_t distance);

  // Returns memory that the threads of a block share, on a boundary of 16 bytes.
  mlir::Value allocateShared(mlir::Type element, int64_t size);
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_CODE_H
