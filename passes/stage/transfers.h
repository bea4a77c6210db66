// SPDX-License-Identifier: Apache-2.0
//
// The contract of what crosses the programs of a pipeline: each message has two ends, each place in the slot one maker.

#ifndef ASHLAR_PASSES_STAGE_TRANSFERS_H
#define ASHLAR_PASSES_STAGE_TRANSFERS_H

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::stage {

// Checks the stages in a module: a message, by sender, receiver and channel, has one send and one receive, of one type; a place of the slot
// gets its value in one program of the stage, and is taken with its type. Fails with an error on the first op that breaks this.
mlir::LogicalResult verifyTransfers(mlir::ModuleOp module);

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_TRANSFERS_H
