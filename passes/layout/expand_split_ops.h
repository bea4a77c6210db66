// SPDX-License-Identifier: Apache-2.0
//
// Compositions whose parts can be split although they cannot.

#ifndef ASHLAR_PASSES_LAYOUT_EXPAND_SPLIT_OPS_H
#define ASHLAR_PASSES_LAYOUT_EXPAND_SPLIT_OPS_H

#include "dialects/dist/dist.h"

namespace ashlar::layout {

// Replaces every op that has layouts split on an Expanded factor by its expansion, whose last op takes over the layout; the others have
// none yet. Returns true when there was one.
bool expandSplitOps(mlir::ModuleOp module, dist::MeshAttr mesh);

// Returns the name of the op that was expanded and whose result `op` computes; "" for the other ops of an expansion, nothing for all
// others. It stands in the location.
std::optional<llvm::StringRef> expandedName(mlir::Operation *op);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_EXPAND_SPLIT_OPS_H
