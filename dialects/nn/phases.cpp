// SPDX-License-Identifier: Apache-2.0
//
// Two walks up from what ends a phase.

#include "dialects/nn/phases.h"

#include "dialects/nn/repeat.h"

using namespace mlir;

namespace ashlar::nn {

Phases::Phases(Block &body) : body(&body) {
  mark(body.getTerminator(), Phase::Forward);
  for (auto write : body.getOps<WriteOp>()) {
    if (write->hasAttr(kForwardWriteAttr)) {
      mark(write, Phase::Forward);
    }
  }
  for (auto gradient : body.getOps<GradientOp>()) {
    mark(gradient, Phase::Backward);
  }
}

void Phases::mark(Operation *op, Phase phase) {
  SmallVector<Operation *> pending = {op};
  while (!pending.empty()) {
    Operation *next = pending.pop_back_val();
    if (phases.try_emplace(next, phase).second) {
      for (Value operand : next->getOperands()) {
        if (Operation *maker = operand.getDefiningOp()) {
          pending.push_back(maker);
        }
      }
      if (auto carry = dyn_cast<RepeatCarryOp>(next)) { // an iteration reads what the one before yields
        llvm::copy_if(carry->getUsers(), std::back_inserter(pending), [&](Operation *user) {
          auto last = dyn_cast<RepeatNextOp>(user);
          return last && last.getCarried() == carry;
        });
      }
    }
  }
}

} // namespace ashlar::nn
