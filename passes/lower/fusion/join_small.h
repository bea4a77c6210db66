// SPDX-License-Identifier: Apache-2.0
//
// Small kernels side by side in one.

#ifndef ASHLAR_PASSES_LOWER_FUSION_JOIN_SMALL_H
#define ASHLAR_PASSES_LOWER_FUSION_JOIN_SMALL_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::lower {

// Joins kernels over the same shape that are short enough for their launches to count, where they do not need each other: the updates of
// biases and norms, their conversions, the squares of clipped gradients. A loop that finishes a kernel's reduction joins it too: mean and
// deviation of a batch normalization, its running statistics. Kernels of a target without launches stay as they are. O(joined kernels x
// ops).
//   %a1 = loop(%a, %da); nn.write @a, %a1                         %a1, %b1 = loop(%a, %da, %b, %db)
//   %b1 = loop(%b, %db); nn.write @b, %b1                 ==>     nn.write @a, %a1; nn.write @b, %b1
void joinSmallKernels(mlir::Block &block, exec::Target target);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_JOIN_SMALL_H
