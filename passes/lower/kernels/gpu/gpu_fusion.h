// SPDX-License-Identifier: Apache-2.0
//
// The distribution of a fusion's domain over a GPU: for the emitter, and for the choice of fusions.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_FUSION_H
#define ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_FUSION_H

#include "passes/lower/kernels/gpu/gpu_shape.h"
#include "passes/lower/kernels/kernel_nest.h"

namespace ashlar::lower {

// Returns the most elements that a thread reads at once: 16 bytes of the widest operand.
int64_t widestAccess(exec::FusionOp fusion, const KernelShape &shape);

// The same for a chunk along the innermost of `loops`: a divisor of its size.
int64_t lanesOf(exec::FusionOp fusion, const KernelShape &shape, llvm::ArrayRef<LoopDim> loops);

// Returns the blocks of a fusion of kind loop or rows.
int64_t countBlocks(exec::FusionOp fusion, const KernelShape &shape);

// Returns the blocks and threads of a fusion of kind columns whose innermost loop is kept.
GpuColumnShape columnShapeOf(exec::FusionOp fusion, const KernelShape &shape);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_FUSION_H
