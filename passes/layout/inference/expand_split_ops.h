// SPDX-License-Identifier: Apache-2.0
//
// Compositions whose parts can be split although they cannot.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_EXPAND_SPLIT_OPS_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_EXPAND_SPLIT_OPS_H

#include "dialects/support/op_interfaces.h"
#include "passes/layout/inference/inference.h"

namespace ashlar::layout {

// An op with an Expanded factor that is split.
struct SplitOp {
  ExpandableOpInterface op;
  int64_t factor, parts; // the first such factor, and how many devices split it
};

// Returns the ops with an operand or result that inference splits on an Expanded factor, over axes that split no other factor of the op.
llvm::SmallVector<SplitOp> findSplitOps(const LayoutProblem &problem, const Inference &inference);

// Replaces an op by itself on the parts of its factor, where results on these combine, else by its expansion. The last op of that takes
// over what is given of the layout.
void expand(const SplitOp &split);

// Returns the name of the op that was expanded and whose result `op` computes; "" for the other ops of an expansion, nothing for all
// others. It stands in the location.
std::optional<llvm::StringRef> expandedName(mlir::Operation *op);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_EXPAND_SPLIT_OPS_H
