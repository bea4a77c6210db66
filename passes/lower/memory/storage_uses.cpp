// SPDX-License-Identifier: Apache-2.0
//
// Follows the names of a value, in the order of its uses.

#include "passes/lower/memory/storage_uses.h"

#include "dialects/exec/exec.h"
#include "dialects/support/aliases.h"

using namespace mlir;

namespace ashlar::lower {

void collectStorageUses(Value value, SmallVectorImpl<OpOperand *> &uses) {
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
    Operation *user = use->getOwner();
    const bool isAlias = aliasesOperands(user);
    if (!isAlias || isa<exec::AwaitOp>(user)) {
      uses.push_back(use);
    }
    if (isAlias && use->getOperandNumber() < user->getNumResults()) { // further operands are not read: the event of a dist.after
      follow(user->getResult(use->getOperandNumber()));
    }
  }
}

} // namespace ashlar::lower
