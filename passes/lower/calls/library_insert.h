// SPDX-License-Identifier: Apache-2.0
//
// The call that writes rows into a tensor. Where the tensor is not needed any more, the result takes its bytes.

#ifndef ASHLAR_PASSES_LOWER_CALLS_LIBRARY_INSERT_H
#define ASHLAR_PASSES_LOWER_CALLS_LIBRARY_INSERT_H

#include "passes/lower/calls/library_call.h"

#include <optional>

namespace ashlar::lower {

// Returns whether the op is a call of its own: one that a target without such calls has written out by now.
bool beginsInsert(mlir::Operation *op);

// Returns false: nothing joins the call.
bool followsInsert(mlir::Operation *op, mlir::Operation *last, exec::Target target);

// Returns the operand of a fusion of kind insert that the rows are written to; nothing for other kinds.
std::optional<unsigned> findInsertBase(exec::FusionOp fusion);

// Returns whether the result may take the bytes of that operand, once nothing else needs it: the rows are none of its own.
bool insertsOver(exec::FusionOp fusion, unsigned operand);

// Builds the call that a fusion of kind insert becomes, whose result holds the base. Fails, with an error, where its body is not one
// nn.insert.
mlir::LogicalResult buildInsertCall(const CallSite &site);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_LIBRARY_INSERT_H
