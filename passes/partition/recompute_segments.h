// SPDX-License-Identifier: Apache-2.0
//
// The ops of the forward pass that are rematerialized: by the rules of the user, and by cost.

#ifndef ASHLAR_PASSES_PARTITION_RECOMPUTE_SEGMENTS_H
#define ASHLAR_PASSES_PARTITION_RECOMPUTE_SEGMENTS_H

#include "dialects/dist/recompute_rules.h"
#include "dialects/nn/phases.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace ashlar::partition {

// The rematerialized ops, each with its segment: the module that is rematerialized together.
using RecomputeSegments = llvm::MapVector<mlir::Operation *, std::string>;

// Whether the result of an op of the forward pass goes to another stage of a pipeline. Then it is kept.
bool goesToOtherStage(mlir::Operation *op);

// Returns the segments of a training step. `step` is on one device's shapes.
RecomputeSegments segmentsByRules(mlir::func::FuncOp step, const nn::Phases &phases, const dist::RecomputeRules &rules);

// Adds the rematerialized ops where rules leave it open: the first `steps` of the moves that save most bytes for their time. Returns the
// number of moves. A move is a step of a module between two of its best choices (recompute_choice.h). Equal modules, the layers of a model,
// have the same choices, which are found once; ops outside of such modules form one by the first part of their path.
int64_t addSegmentsByCost(mlir::func::FuncOp step, const nn::Phases &phases, const dist::RecomputeRules &rules, int64_t steps,
                          RecomputeSegments &segments);

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_RECOMPUTE_SEGMENTS_H
