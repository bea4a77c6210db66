// SPDX-License-Identifier: Apache-2.0
//
// What redistributions are for, as the report says it.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_RECORD_REASONS_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_RECORD_REASONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::layout {

// Writes into each redistribution of the function which op makes the value, which ops want it in the new layout, and where the layouts
// came from (dist::Reason); not into those that the model itself asks for. Assumes layouts, and their origins as propagation leaves them.
void recordReasons(mlir::func::FuncOp function);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_RECORD_REASONS_H
