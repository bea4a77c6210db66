// SPDX-License-Identifier: Apache-2.0
//
// One constant a use.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_COPY_SOURCES_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_COPY_SOURCES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::layout {

// Returns whether an op can be had in any layout, and is copied for each use: it reads nothing (constants, indices), or scalars that it
// repeats. One that the model names is left alone, since rules may be about it.
bool isSource(mlir::Operation &op);

// Copies sources for each use, so that each copy takes the layout its one user wants: parameters of one shape that take one learning rate
// have nothing else in common. Done twice it does nothing more.
void copySources(mlir::func::FuncOp function);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_COPY_SOURCES_H
