// SPDX-License-Identifier: Apache-2.0
//
// Follows results to the operands that they are other names of.

#include "dialects/support/aliases.h"

#include "dialects/support/op_interfaces.h"

using namespace mlir;

namespace ashlar {

bool aliasesOperands(Operation *op) {
  return op->hasTrait<AliasesOperands>();
}

Value getStorageRoot(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!aliasesOperands(def)) {
      break;
    }
    value = def->getOperand(cast<OpResult>(value).getResultNumber());
  }
  return value;
}

} // namespace ashlar
