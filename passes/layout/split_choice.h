// SPDX-License-Identifier: Apache-2.0
//
// With which split of its factors an op computes.

#ifndef ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H
#define ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H

#include "dialects/dist/redistribution.h"
#include "passes/layout/factor_split.h"

namespace ashlar::layout {

// Returns the split of factors that `op` should compute with. Where all its tensors agree there is nothing to choose; otherwise the one
// whose operands are brought and results taken in the shortest time, then with the fewest bytes, and among equals the one that uses more
// axes, which is less work a device. The factors of operands that dist.operand_layouts tells the op how to take are split so. `planner` is
// that of the mesh. Assumes that every operand and result has a layout, none partial.
FactorSplit chooseSplit(MeshAttr mesh, dist::Planner &planner, mlir::Operation *op, const ShardingRule &rule);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_SPLIT_CHOICE_H
