// SPDX-License-Identifier: Apache-2.0
//
// Which ops of the forward pass are computed again: by the rules of the user, and by price.

#ifndef ASHLAR_PASSES_PARTITION_RECOMPUTE_SEGMENTS_H
#define ASHLAR_PASSES_PARTITION_RECOMPUTE_SEGMENTS_H

#include "dialects/dist/recompute_rules.h"
#include "dialects/nn/phases.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace ashlar::partition {

// The ops that are computed again, each with its segment: what is computed again together, a module.
using RecomputeSegments = llvm::MapVector<mlir::Operation *, std::string>;

// Whether the result of an op of the forward pass goes to another stage of a pipeline. Then it is kept.
bool goesToOtherStage(mlir::Operation *op);

// Returns the segments of a training step. `step` is on one device's shapes.
RecomputeSegments segmentsByRules(mlir::func::FuncOp step, const nn::Phases &phases, const dist::RecomputeRules &rules);

// Adds the ops that are computed again where rules leave it open: the first `steps` of the moves that save most bytes for their time.
// Returns how many moves there are. A move is one of a module, between two of its best choices (recompute_choice.h). Modules that are
// alike, the layers of a model, have the same choices, which are found once; what lies in no such module is one by the first part of its
// path.
int64_t addSegmentsByPrice(mlir::func::FuncOp step, const nn::Phases &phases, const dist::RecomputeRules &rules, int64_t steps,
                           RecomputeSegments &segments);

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_RECOMPUTE_SEGMENTS_H
