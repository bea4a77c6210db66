// SPDX-License-Identifier: Apache-2.0
//
// Layout inference over a module, for the pass of this name and for a search that looks at what would become of a strategy.

#ifndef ASHLAR_PASSES_LAYOUT_PROPAGATE_LAYOUTS_H
#define ASHLAR_PASSES_LAYOUT_PROPAGATE_LAYOUTS_H

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::layout {

// Infers the layout of every value of a module with a mesh from those that are given, as ashlar-propagate-layouts says (passes.td).
mlir::LogicalResult propagateLayouts(mlir::ModuleOp module, bool splitVariables);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_PROPAGATE_LAYOUTS_H
