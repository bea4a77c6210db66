// SPDX-License-Identifier: Apache-2.0
//
// Ops that select by data of the run: their results have the largest size that is possible, and a count (counted_dims.h).

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_INDEX_SELECTION_H
#define ASHLAR_COMPILER_FRONTEND_OPS_INDEX_SELECTION_H

#include "compiler/frontend/node.h"

namespace ashlar::frontend {

// The places where some of n flags hold.
struct Selection {
  mlir::Value places; // i64 list of n: the places, then zeros; its dim is not counted yet
  mlir::Value count;  // i64 scalar
};

// Finds the true elements of a list of at least one bool, all valid.
Selection selectFlagged(const Node &node, mlir::Value flags);

// Fails where the model is one device's (mode HYBRID): a selection from a shard gives other elements than one from the whole.
void checkIsWhole(const Node &node);

// Returns the places of a list of bools where they hold, in their order, an i64 list as long; it is counted, and has -1 behind the places,
// which no row has.  [0, 1, 1, 0] gives [1, 2, -1, -1] and the count 2.
mlir::Value selectPlaces(const Node &node, mlir::Value flags);

// NonMaxSuppression, NonZero and Unique of values unknown at import.
void importNonMaxSuppressionAtRunTime(Node &node);
void importNonZeroAtRunTime(Node &node);
void importUniqueAtRunTime(Node &node);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_INDEX_SELECTION_H
