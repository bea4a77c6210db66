// SPDX-License-Identifier: Apache-2.0
//
// Why no two devices can wait for each other in different collectives: the invariants of the table, for all devices of the mesh.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_COLLECTIVE_ORDER_H
#define ASHLAR_PASSES_LOWER_MEMORY_COLLECTIVE_ORDER_H

#include "dialects/exec/exec.h"

namespace ashlar::lower {

// The collectives of all devices, in their one order.
struct CollectiveOrder {
  int64_t devices = 1;
  int64_t collectives = 0; // of all programs; slices, which move nothing between devices, aside
  uint64_t hash = 0;       // of programs, kinds, reductions, axes, types, dims, roots and pairs, and which are only started, in their order
};

// Checks for every collective of the variant that its groups partition the devices, that every member does the same in it, and that roots
// and pairs are members: (C9) to (C11) of ashlar-verify-exec. All devices run one list of instructions without conditions; so a group's
// sequence, the collectives over its axes, is the same for each of its members. Takes devices times distinct lists of axes.
mlir::FailureOr<CollectiveOrder> checkCollectiveOrder(exec::VariantOp variant);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_COLLECTIVE_ORDER_H
