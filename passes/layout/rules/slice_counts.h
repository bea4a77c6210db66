// SPDX-License-Identifier: Apache-2.0
//
// Rules that count slices instead of naming axes: in: (2, 1), (4, 1) and out: (2, 4) of one op.

#ifndef ASHLAR_PASSES_LAYOUT_RULES_SLICE_COUNTS_H
#define ASHLAR_PASSES_LAYOUT_RULES_SLICE_COUNTS_H

#include "passes/layout/inference/named_tensors.h"
#include "passes/layout/rules/layout_text.h"

namespace ashlar::layout {

// The split of one tensor of an op.
struct TensorSplit {
  TensorRef tensor; // an operand or a result
  llvm::SmallVector<DimSplit> dims;
};

// Chooses axes for the counts of a rule on one group of ops. Dims that the ops' sharding rules identify are sharded alike; each takes the
// first free axis of exactly its size, or else, in the order of the mesh, the usable part of each axis. Tuples belong to the inputs and
// outputs in order; inputs without one are not restricted. Example, on a mesh dp = 2, tp = 4:
//   matmul  in (2, 1), (1, 4)   ==>  [{dp}, {}], [{}, {tp}]                 the result [{dp}, {tp}] follows
//   matmul  in (4, 1), (1, 2)   ==>  [{tp}, {}], [{}, {dp}]
//   matmul  in (1, 4), (4, 1) out (4, 1)  ==>  [{}, {tp}], [{tp}, {}] and [{tp}, {}]: the sum is scattered
mlir::FailureOr<llvm::SmallVector<TensorSplit>> assignAxes(const MeshRefinement &refinement, dist::RuleAttr rule, const OpGroup &group,
                                                           llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_RULES_SLICE_COUNTS_H
