// SPDX-License-Identifier: Apache-2.0
//
// Walks along operands without recursion: a chain of ops may be longer than the stack is deep. The path lies in a list on the heap.

#ifndef ASHLAR_DIALECTS_SUPPORT_OPERANDS_FIRST_H
#define ASHLAR_DIALECTS_SUPPORT_OPERANDS_FIRST_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <utility>

namespace ashlar {

// Walks the ops that `root` depends on depth first, operands in order. `enter` is called on an op before its operands and returns whether
// to walk them and the op; `leave` is called on each op entered, after its operands. Assumes that `enter` returns false for an op that was
// left before; linear in the operands of the ops entered.
//
//     %c = add %a, %b; walk from %c: enter c, enter a, leave a, enter b, leave b, leave c
inline void walkOperandsFirst(mlir::Operation *root, llvm::function_ref<bool(mlir::Operation *)> enter,
                              llvm::function_ref<void(mlir::Operation *)> leave) {
  llvm::SmallVector<std::pair<mlir::Operation *, unsigned>> path; // each op with its next operand
  auto visit = [&](mlir::Operation *op) {
    if (op && enter(op)) {
      path.push_back({op, 0});
    }
  };
  visit(root);
  while (!path.empty()) {
    auto &[op, next] = path.back();
    if (next < op->getNumOperands()) {
      visit(op->getOperand(next++).getDefiningOp());
      continue;
    }
    mlir::Operation *left = op;
    path.pop_back();
    leave(left);
  }
}

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_OPERANDS_FIRST_H
