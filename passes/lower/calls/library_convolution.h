// SPDX-License-Identifier: Apache-2.0
//
// A convolution of the library, or one of its gradients, and the ops that one call of it absorbs: from the ops of a program to the
// descriptor of the runtime. The library takes f32, bf16 and f16 with the channels last (set by ashlar-assign-formats; ashlar-expand-ops
// expands others). The grammar is
//
//   nn.conv or nn.conv_data  [nn.mul by a scale along the last dim]  [nn.add of a bias along it]  [nn.add of a tensor]  [activation]
//   nn.conv_weights
//
// where the library joins epilogues (`joinsConvolutions`), else just the convolutions, each part at most once, in this order, and read by
// the next one only.

#ifndef ASHLAR_PASSES_LOWER_CALLS_LIBRARY_CONVOLUTION_H
#define ASHLAR_PASSES_LOWER_CALLS_LIBRARY_CONVOLUTION_H

#include "dialects/nn/windows/convolution.h"
#include "passes/lower/calls/library_call.h"
#include "runtime/abi/ashlar_rt.h"

namespace ashlar::lower {

// Returns whether the op is a convolution that the target's library computes: in its format, of a type that it takes, as it is or
// as f32, and not empty.
bool isLibraryConvolution(mlir::Operation *op, exec::Target target);

// Returns whether the target's library takes the operands of one of its convolutions as they are, and gives the result as it is.
bool takesOperands(const nn::Convolution &conv, exec::Target target);

// Returns whether a call begins with the op.
bool beginsConvolution(mlir::Operation *op);

// Returns whether the op can follow `last` inside a call of the target's library, whatever its other operands.
bool followsInConvolution(mlir::Operation *op, mlir::Operation *last, exec::Target target);

// Builds the call that a fusion of kind conv becomes. Fails, with an error, where its body is not of the grammar.
mlir::LogicalResult buildConvolutionCall(const CallSite &site);

// Returns the call as the runtime gets it.
ashlar_rt_conv_desc describeConvolution(exec::ConvOp call);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_LIBRARY_CONVOLUTION_H
