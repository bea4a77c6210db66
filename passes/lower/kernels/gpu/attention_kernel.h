// SPDX-License-Identifier: Apache-2.0
//
// The kernel of an attention, or of gradients of one, whose scores are in no memory (after Dao, "FlashAttention-2", 2023).

#ifndef ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_KERNEL_H
#define ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_KERNEL_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::lower {

// Emits a fusion of kind attention_kernel: an attention and its log-sum-exp; what the rounding of a log-sum-exp lost; the gradient of the
// query; or gradients of key and value, of a log-sum-exp that is a sum of both. A block has some rows of the result, and goes through the
// rows of the other tensor that these see. Operands and results are as in the fusion, or with their heads inside their rows where it
// transposes them. `alias` as in emitKernel().
void emitAttentionKernel(exec::FusionOp fusion, mlir::func::FuncOp function, llvm::ArrayRef<int64_t> alias);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_KERNEL_H
