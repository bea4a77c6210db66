// SPDX-License-Identifier: Apache-2.0
//
// See update_phase.h.

#include "passes/train/update/update_phase.h"

#include "dialects/nn/phases.h"

using namespace mlir;

namespace ashlar::train {

UpdatePhase::UpdatePhase(func::FuncOp function)
    : end(function.front().getTerminator()), gradientOps(function.front().getOps<nn::GradientOp>()) {
  nn::Phases phases(function.front());
  for (Operation &op : function.front()) {
    if (phases.of(&op) == nn::Phase::Update) {
      updates.push_back(&op);
    }
  }
  isUpdate.insert_range(updates);
}

void UpdatePhase::replace(nn::GradientOp gradient, Value value) const {
  gradient.getResult().replaceUsesWithIf(value, [&](OpOperand &use) { return isUpdate.contains(use.getOwner()); });
}

void UpdatePhase::moveToEnd(Operation *op) const {
  op->moveBefore(end);
}

} // namespace ashlar::train
