// SPDX-License-Identifier: Apache-2.0
//
// Values that kernels recompute instead of reading them from memory.

#ifndef ASHLAR_PASSES_LOWER_FUSION_COMPUTE_AGAIN_H
#define ASHLAR_PASSES_LOWER_FUSION_COMPUTE_AGAIN_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::lower {

// Drops the results of kernels that only kernels read, if these can compute them element by element from stored values with less memory
// traffic and no more live memory. The backward pass of a softmax then reads its narrow operand and two numbers a row, of a norm its input,
// mean and 1 / deviation, of a cross entropy the logits; and a conversion to a wider type is never stored. The bits are the same:
// element-wise ops round alike in every kernel.
//   %p, %p16 = rows(%s)                        %m, %d, %p16 = rows(%s)
//   %ds = rows(%dp, %p)                  ==>   %ds = rows(%dp, %s, %m, %d)         p = exp(s - m) / d again
// Linear in the number of kernels, and in the ops that are copied.
void computeAgain(mlir::Block &block, exec::Target target);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_COMPUTE_AGAIN_H
