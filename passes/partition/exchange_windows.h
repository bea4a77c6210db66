// SPDX-License-Identifier: Apache-2.0
//
// Ops over windows on a device: their elements of a sharded dim come as a run from the devices that hold them, and their results go as
// shards to the devices of the result's layout.

#ifndef ASHLAR_PASSES_PARTITION_EXCHANGE_WINDOWS_H
#define ASHLAR_PASSES_PARTITION_EXCHANGE_WINDOWS_H

#include "dialects/dist/dist.h"

namespace ashlar::partition {

// Returns the windowed dims of an op that are split. Assumes global types, and layouts on the op and its operands.
llvm::SmallVector<dist::SplitWindow> findWindows(dist::MeshAttr mesh, ShardingRuleOpInterface op);

// Gives the op the segments of its operands instead of their shards. Assumes local operands.
void exchangeOperands(dist::MeshAttr mesh, mlir::Operation *op, llvm::ArrayRef<dist::SplitWindow> windows);

// Has the op compute on segments, and gives the users of its results their pieces. Assumes that results have local types, of pieces.
void exchangeResults(dist::MeshAttr mesh, mlir::Operation *op, llvm::ArrayRef<dist::SplitWindow> windows);

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_EXCHANGE_WINDOWS_H
