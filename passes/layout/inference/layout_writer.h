// SPDX-License-Identifier: Apache-2.0
//
// Writes what inference found into the module.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_WRITER_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_WRITER_H

#include "passes/layout/inference/inference.h"

namespace ashlar::layout {

// Writes the layout of every tensor, and where it came from, into the module that the problem was stated from. What said how a layout was
// given (open dims, priorities) is dropped.
void writeLayouts(const LayoutProblem &problem, const Inference &inference);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_LAYOUT_WRITER_H
