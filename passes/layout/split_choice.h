// SPDX-License-Identifier: Apache-2.0
//
// With which split of its factors an op computes.

#ifndef ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H
#define ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H

#include "passes/layout/factor_split.h"

namespace ashlar::layout {

// Returns the split of factors that `op` should compute with. Where all its tensors agree there is nothing to choose; otherwise the one
// that sends the fewest bytes to bring the operands and to take the results, and among equals the one that uses more axes, which is less
// work a device. The factors of operands that dist.operand_layouts tells the op how to take are split so. Assumes that every operand and
// result has a layout, none partial.
FactorSplit chooseSplit(MeshAttr mesh, mlir::Operation *op, const ShardingRule &rule);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H
