// SPDX-License-Identifier: Apache-2.0
//
// Layout inference over a module, for the pass of this name and for a search that tries a strategy.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_PROPAGATE_LAYOUTS_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_PROPAGATE_LAYOUTS_H

#include "passes/layout/inference/inference.h"

namespace ashlar::layout {

// The problem of a module with its inferred layouts.
struct Inferred {
  LayoutProblem problem;
  Inference inference;
};

// Infers the layout of every value of a module with a mesh from the given layouts. Changes only the ops that it replaces by their
// expansions, and the sources that it copies for each use (copySources). `keeps`: what has a layout when an op is expanded keeps it, which
// is written; else only what was given before is given to the expanded module.
mlir::FailureOr<Inferred> inferLayouts(mlir::ModuleOp module, bool splitVariables, bool keeps = true);

// Infers layouts and writes them, as ashlar-propagate-layouts (passes.td).
mlir::LogicalResult propagateLayouts(mlir::ModuleOp module, bool splitVariables);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_PROPAGATE_LAYOUTS_H
