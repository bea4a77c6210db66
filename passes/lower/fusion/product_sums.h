// SPDX-License-Identifier: Apache-2.0
//
// Sums that a library product computes in the same call: the gradient of a bias, with the gradient of its weight.

#ifndef ASHLAR_PASSES_LOWER_FUSION_PRODUCT_SUMS_H
#define ASHLAR_PASSES_LOWER_FUSION_PRODUCT_SUMS_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::lower {

// Makes one exec.product_with_sums of a library product of at least so many multiplications and of a sum over all rows of one of its
// operands, which it contracts over, where both have one element type. Each product takes one sum at most.
//   %dw = nn.matmul %dy, %x {transpose_a};  %db = nn.reduce sum %dy dims = [0]
//   ==>  %dw, %db = exec.product_with_sums lhs %dy, %x transpose_a
void joinSumsToProducts(mlir::func::FuncOp function, exec::Target target, int64_t leastFlops);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_PRODUCT_SUMS_H
