// SPDX-License-Identifier: Apache-2.0
//
// Writes the result of inference into the module.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_WRITER_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_WRITER_H

#include "passes/layout/inference/inference.h"

namespace ashlar::layout {

// Writes the layout of every tensor, and its origin, into the module that the problem was stated from. Attributes about given layouts (open
// dims, priorities) are dropped.
void writeLayouts(const LayoutProblem &problem, const Inference &inference);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_WRITER_H
