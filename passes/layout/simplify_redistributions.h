// SPDX-License-Identifier: Apache-2.0
//
// Redistributions that two ops can share or do without.

#ifndef ASHLAR_PASSES_LAYOUT_SIMPLIFY_REDISTRIBUTIONS_H
#define ASHLAR_PASSES_LAYOUT_SIMPLIFY_REDISTRIBUTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::layout {

// Adds partial sums before they are combined, skips layouts that only lie on the way to another, and sends nothing that is known:
//   add(redistribute(p), redistribute(q)) ==> redistribute(add(p, q))    both partial sums: a parameter used twice is summed once
//   redistribute(redistribute(x))         ==> redistribute(x)            a sum that is then split is one reduce-scatter
//   redistribute(constant)                ==> constant                   in the other layout; likewise indices
void simplifyRedistributions(mlir::func::FuncOp function);

// Returns true for an op on partial sums that simplifyRedistributions made: it adds values partial in one and the same way.
bool addsPartialSums(mlir::Operation *op);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_SIMPLIFY_REDISTRIBUTIONS_H
