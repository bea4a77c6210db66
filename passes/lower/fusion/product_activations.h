// SPDX-License-Identifier: Apache-2.0
//
// Activations and their gradients that library products compute in the same call.

#ifndef ASHLAR_PASSES_LOWER_FUSION_PRODUCT_ACTIVATIONS_H
#define ASHLAR_PASSES_LOWER_FUSION_PRODUCT_ACTIVATIONS_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::lower {

// Joins activations whose slopes the target's library applies to products of at least so many multiplications: the forward product writes
// the activation and a tensor for the gradient, and the product that makes the gradient of the activation multiplies it by the slope.
//   %z = nn.add (nn.matmul %x, %w), %b                  %y, %aux = exec.product_with_auxiliary gelu_tanh %x, %w bias %b
//   %y = nn.gelu %z                               ==>   ...
//   %dz = (nn.matmul %d, %v) * gelu'(%z)                %dz = exec.product_with_slope gelu_tanh %d, %v, %aux
// Both or neither, but a gelu whose operand something else reads, too, always: the product writes both. Products are of matrices of one
// type with a multiple of 8 columns. Linear in the ops.
void joinActivationsToProducts(mlir::func::FuncOp function, exec::Target target, int64_t leastFlops);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_PRODUCT_ACTIVATIONS_H
