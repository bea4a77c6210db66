// SPDX-License-Identifier: Apache-2.0
//
// The semantics of the dist ops whose result depends on the operands of several ranks.

#ifndef ASHLAR_COMPILER_REFERENCE_COLLECTIVES_H
#define ASHLAR_COMPILER_REFERENCE_COLLECTIVES_H

#include "dialects/support/reference_tensor.h"

#include "mlir/IR/Operation.h"

namespace ashlar::reference {

// Computes result `number` of an op on all ranks from the operand of that number on all ranks: ranks[r] holds the operands of rank r.
using CollectiveSemantics = std::vector<Tensor> (*)(mlir::Operation *op, unsigned number, llvm::ArrayRef<std::vector<Tensor>> ranks);

// Returns the semantics of a collective; null for any other op.
CollectiveSemantics findCollective(mlir::Operation *op);

} // namespace ashlar::reference

#endif // ASHLAR_COMPILER_REFERENCE_COLLECTIVES_H
