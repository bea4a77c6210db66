// SPDX-License-Identifier: Apache-2.0
//
// Looks through ops that make no instruction of their own, or one that moves nothing.

#include "passes/lower/memory/same_bytes.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::lower {

Value rootOf(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!isa<nn::ReshapeOp, dist::AfterOp, exec::AwaitOp>(def)) {
      break;
    }
    value = def->getOperand(cast<OpResult>(value).getResultNumber());
  }
  return value;
}

void collectUses(Value value, SmallVectorImpl<OpOperand *> &uses) {
  for (OpOperand &use : value.getUses()) {
    if (auto after = dyn_cast<dist::AfterOp>(use.getOwner())) {
      if (&use == &after.getInputMutable()) { // of the event nothing is read
        collectUses(after.getResult(), uses);
      }
    } else if (auto reshape = dyn_cast<nn::ReshapeOp>(use.getOwner())) {
      collectUses(reshape.getResult(), uses);
    } else {
      uses.push_back(&use);
    }
    if (auto await = dyn_cast<exec::AwaitOp>(use.getOwner())) {
      collectUses(await.getResult(use.getOperandNumber()), uses);
    }
  }
}

} // namespace ashlar::lower
