// SPDX-License-Identifier: Apache-2.0
//
// The loop nest of a fusion: its domain, which dims are rows or reduced, and which neighbouring dims run as one loop.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_KERNEL_SHAPE_H
#define ASHLAR_PASSES_LOWER_KERNELS_KERNEL_SHAPE_H

#include "dialects/exec/exec.h"

namespace ashlar::lower {

// Neighbouring dims [first, last] of the domain that run as one loop of `size` iterations. The loop variable stands for the index of dim
// `last` and runs past its size while the dims before stay 0: every access is linear in it, because the dims are contiguous wherever they
// are read.
struct LoopDim {
  int64_t first;
  int64_t last;
  int64_t size;
  bool reduced; // a reduction runs over it
};

// The nest of a fusion; a scatter's nest runs over the updates, its places are reduced. Example: columns over tensor<256x28x28xf32>
// reducing dim 0 has loops {0..0: 256, reduced}, {1..2: 784}.
struct KernelShape {
  llvm::SmallVector<int64_t> domain;
  int64_t rowRank = 0;   // of a rows fusion: leading dims that are rows; of a scatter: leading dims of batch or places
  int64_t batchDims = 0; // of a scatter
  llvm::SmallVector<LoopDim> loops;

  // Analyses a fusion; an attention kernel is no nest of loops.
  static KernelShape get(exec::FusionOp fusion);
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_KERNEL_SHAPE_H
