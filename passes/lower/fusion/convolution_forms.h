// SPDX-License-Identifier: Apache-2.0
//
// The form that the library takes convolutions in.

#ifndef ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H
#define ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H

#include "dialects/exec/exec.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ashlar::lower {

// Fails, with an error, when the target's library cannot compute the op, a convolution.
mlir::LogicalResult checkConvolution(mlir::Operation *op, exec::Target target);

// Returns the result of the op where it is a convolution with the channels first: of one with the channels last, between transposes; zeros
// where it adds up nothing. Null for any other op.
//
//   %y = nn.conv %x, %w   ==>   %y = nn.transpose (nn.conv (nn.transpose %x), %w channels_last)
mlir::Value putChannelsLast(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H
