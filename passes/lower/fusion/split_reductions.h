// SPDX-License-Identifier: Apache-2.0
//
// Reductions in two steps, where blocks or threads would have too little to share out in one.

#ifndef ASHLAR_PASSES_LOWER_FUSION_SPLIT_REDUCTIONS_H
#define ASHLAR_PASSES_LOWER_FUSION_SPLIT_REDUCTIONS_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::lower {

// Splits fusions that reduce many elements to few: the first reduced dim (on cuda with the dims that run as one loop with it) becomes
// (segments, rest), the fusion reduces the rest, and a second one reduces the segments and computes the dependent ops. No element is
// computed twice, and full results stay where they are.
//   %y = columns(%x : 8192x256, ...)   ==>   %p = columns(reshape %x : 64x128x256, ...) : 64x256;   %y = columns(%p)
void splitReductions(mlir::Block &block, exec::Target target);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_SPLIT_REDUCTIONS_H
