// SPDX-License-Identifier: Apache-2.0
//
// Looks through ops that make no instruction of their own, or one that moves nothing.

#include "passes/lower/memory/same_bytes.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::lower {

bool hasBytesOfOperand(Operation *op) {
  return isa<nn::ReshapeOp, dist::AfterOp, exec::AwaitOp>(op);
}

Value rootOf(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!hasBytesOfOperand(def)) {
      break;
    }
    value = def->getOperand(cast<OpResult>(value).getResultNumber());
  }
  return value;
}

void collectUses(Value value, SmallVectorImpl<OpOperand *> &uses) {
  SmallVector<OpOperand *> pending; // the next one last
  auto follow = [&](Value next) {
    const size_t begin = pending.size();
    for (OpOperand &use : next.getUses()) {
      pending.push_back(&use);
    }
    std::reverse(pending.begin() + static_cast<ptrdiff_t>(begin), pending.end());
  };
  follow(value);
  while (!pending.empty()) {
    OpOperand *use = pending.pop_back_val();
    if (auto after = dyn_cast<dist::AfterOp>(use->getOwner())) {
      if (use == &after.getInputMutable()) { // of the event nothing is read
        follow(after.getResult());
      }
    } else if (auto reshape = dyn_cast<nn::ReshapeOp>(use->getOwner())) {
      follow(reshape.getResult());
    } else {
      uses.push_back(use);
    }
    if (auto await = dyn_cast<exec::AwaitOp>(use->getOwner())) {
      follow(await.getResult(use->getOperandNumber()));
    }
  }
}

} // namespace ashlar::lower
