// SPDX-License-Identifier: Apache-2.0
//
// The form of convolutions that no library computes: ops that kernels are generated of.

#ifndef ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H
#define ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ashlar::lower {

// Returns the result of the op where it is a convolution: a sum of products of windows and weights. Null for any other op.
//
//   %y = nn.conv %x, %w   ==>   %y = nn.reduce sum (nn.broadcast (nn.windows %x) * nn.broadcast %w)
mlir::Value expandConvolution(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_CONVOLUTION_FORMS_H
