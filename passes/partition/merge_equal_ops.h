// SPDX-License-Identifier: Apache-2.0
//
// Common subexpressions, with collectives among them.

#ifndef ASHLAR_PASSES_PARTITION_MERGE_EQUAL_OPS_H
#define ASHLAR_PASSES_PARTITION_MERGE_EQUAL_OPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::partition {

// Makes equal ops of the function one. Why a collective is there does not count: one that stays has the causes and reasons of all, in
// program order ("gradient of a, gradient of b").
void mergeEqualOps(mlir::func::FuncOp function);

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_MERGE_EQUAL_OPS_H
