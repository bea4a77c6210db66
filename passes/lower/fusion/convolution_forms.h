// SPDX-License-Identifier: Apache-2.0
//
// The forms of convolutions: library calls, and ops for generated kernels.

#ifndef ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H
#define ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H

#include "dialects/exec/exec.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ashlar::lower {

// Returns the result of the op where it normalizes the result of a library convolution, its only reader: by a factor and a bias a channel,
// which join the call. Its statistics are no function of the convolution then. Null for any other op.
//
//   %n = nn.normalize %y, ... dims = [3]   ==>   %n = %y * nn.broadcast %factor + nn.broadcast (%shift - %mean * %factor)
mlir::Value scaleConvolution(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op, exec::Target target);

// Returns the result of the op where it is a convolution that needs other padding behind a dim than in front of it: of one without padding
// along such dims, on x with its padding. Null for any other op.
//
//   %y = nn.conv %x, %w windows = [#nn.window<3, high = 1>]   ==>   %y = nn.conv (nn.pad %x), %w windows = [#nn.window<3>]
mlir::Value padEvenly(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op);

// Returns the result of the op where it is a convolution: a sum of products of windows and weights. Null for any other op.
//
//   %y = nn.conv %x, %w   ==>   %y = nn.reduce sum (nn.broadcast (nn.windows %x) * nn.broadcast %w)
mlir::Value expandConvolution(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H
