// SPDX-License-Identifier: Apache-2.0
//
// Compositions whose parts can be split although they cannot.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_EXPAND_SPLIT_OPS_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_EXPAND_SPLIT_OPS_H

#include "dialects/support/op_interfaces.h"
#include "passes/layout/inference/inference.h"

namespace ashlar::layout {

// Returns the ops with an operand or result that inference splits on an Expanded factor.
llvm::SmallVector<ExpandableOpInterface> findSplitOps(const LayoutProblem &problem, const Inference &inference);

// Replaces an op by its expansion, whose last op takes over what is given of the layout.
void expand(ExpandableOpInterface op);

// Returns the name of the op that was expanded and whose result `op` computes; "" for the other ops of an expansion, nothing for all
// others. It stands in the location.
std::optional<llvm::StringRef> expandedName(mlir::Operation *op);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_EXPAND_SPLIT_OPS_H
