// SPDX-License-Identifier: Apache-2.0
//
// Parameters that are stored split and gathered where they are used.

#ifndef ASHLAR_PASSES_LAYOUT_OPTIMIZER_GATHER_PARAMETERS_H
#define ASHLAR_PASSES_LAYOUT_OPTIMIZER_GATHER_PARAMETERS_H

#include "dialects/dist/dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace ashlar::layout {

// Returns whether an op makes another copy of its one operand: converted or rearranged, nothing left out.
bool isCopy(mlir::Operation *op);

// The layouts in which variables are stored, by name.
using StoredLayouts = llvm::MapVector<llvm::StringRef, dist::LayoutAttr>;

// Gives each phase of a program its own reads of the variables that are stored sharded, right before the first use, with the copies made of
// them. The update takes the stored shards; forward and backward use the layouts that the reads and copies had, so the shards are gathered
// in between, after conversion to a copy's type where that sends less. Ops of the backward phase for which `again` holds have reads of
// their own: the forward phase need not keep its gathered tensors.
//   %w = nn.read @w {layouts = [L]}             %w = nn.read @w {layouts = [L]}          gathered from the shards
//   %y = nn.matmul %x, %w                ==>    %y = nn.matmul %x, %w
//   %dx = nn.matmul %dy, %w transpose_b         %v = nn.read @w {layouts = [L], dist.read_again}
//                                               %dx = nn.matmul %dy, %v transpose_b
void gatherAtUses(mlir::func::FuncOp function, const StoredLayouts &stored, llvm::function_ref<bool(mlir::Operation *)> again);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_OPTIMIZER_GATHER_PARAMETERS_H
