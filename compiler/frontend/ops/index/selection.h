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

// Finds where flags hold, a list of at least one bool, all of which are there.
Selection selectFlagged(const Node &node, mlir::Value flags);

// Fails where the model is that of one device (mode HYBRID): what is selected from a piece are other elements than those of the whole.
void checkIsWhole(const Node &node);

// Returns the places of a list of bools where they hold, in their order, an i64 list as long; it is counted, and has -1 behind the places,
// which no row has.  [0, 1, 1, 0] gives [1, 2, -1, -1] and the count 2.
mlir::Value selectPlaces(const Node &node, mlir::Value flags);

// NonMaxSuppression, NonZero and Unique of what is not known at import.
void importNonMaxSuppressionAtRunTime(Node &node);
void importNonZeroAtRunTime(Node &node);
void importUniqueAtRunTime(Node &node);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_INDEX_SELECTION_H
