// SPDX-License-Identifier: Apache-2.0
//
// The reasons of redistributions, for the report.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_RECORD_REASONS_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_RECORD_REASONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::layout {

// Records on each redistribution of the function the producer of the value, the ops that want it in the new layout, and the origins of the
// layouts (dist::Reason); not on a model's own collectives. Assumes layouts, and their origins as propagation leaves them.
void recordReasons(mlir::func::FuncOp function);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_RECORD_REASONS_H
