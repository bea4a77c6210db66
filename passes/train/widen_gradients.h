// SPDX-License-Identifier: Apache-2.0
//
// Gradients of parameters that were computed in a narrower type than the parameter's.

#ifndef ASHLAR_PASSES_TRAIN_WIDEN_GRADIENTS_H
#define ASHLAR_PASSES_TRAIN_WIDEN_GRADIENTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::train {

// Moves the conversion to f32 at the end of a gradient of bf16 or f16 up to the product or sum that it comes from, so that it is rounded
// once, to f32, before ranks add their terms. For the `nn.gradient`s of `function`; linear in the ops it moves through.
//
//   %p = nn.matmul %x, %dy : bf16, bf16 -> bf16; %g = nn.cast %p : bf16 -> f32   ==>   %g = nn.matmul %x, %dy : bf16, bf16 -> f32
void widenGradients(mlir::func::FuncOp function);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_WIDEN_GRADIENTS_H
