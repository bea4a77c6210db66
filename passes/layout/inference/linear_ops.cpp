// SPDX-License-Identifier: Apache-2.0
//
// Linearity, from what ops say of themselves (ComputeOpInterface, DelaysSums).

#include "passes/layout/inference/linear_ops.h"

#include "dialects/nn/nn.h"
#include "dialects/support/aliases.h"
#include "dialects/support/op_interfaces.h"

using namespace mlir;

namespace ashlar::layout {

SmallVector<SmallVector<unsigned, 2>> linearOperands(Operation *op) {
  if (op->hasTrait<AliasesOperands>() && op->getNumOperands() == 1 && op->getOperandTypes() == op->getResultTypes()) {
    return {{0}}; // the operand itself
  }
  auto compute = dyn_cast<ComputeOpInterface>(op);
  if (!compute || !op->hasTrait<DelaysSums>()) {
    return {};
  }
  unsigned count = op->getNumOperands();
  if (compute.passesParts(Reduction::Sum, llvm::SmallBitVector(count, true))) {
    return {llvm::to_vector<2>(llvm::seq(count))};
  }
  SmallVector<SmallVector<unsigned, 2>> sets;
  for (unsigned operand = 0; operand < count; ++operand) {
    llvm::SmallBitVector partial(count);
    partial.set(operand);
    if (compute.passesParts(Reduction::Sum, partial)) {
      sets.push_back({operand});
    }
  }
  return sets;
}

dist::AxisList termAxes(Operation *op) {
  if (op->getNumResults() == 1 && nn::isZero(op->getResult(0))) { // zeros are terms of zeros over any axes
    dist::LayoutAttr layout = dist::findLayout(op->getResult(0));
    return layout && layout.getLayout().reduction == Reduction::Sum ? layout.getLayout().partial : dist::AxisList();
  }
  if (op->hasAttr(dist::kOnTermsAttr)) {
    dist::LayoutAttr layout = dist::findLayout(op->getOperand(0));
    return layout ? layout.getLayout().partial : dist::AxisList();
  }
  for (const SmallVector<unsigned, 2> &set : linearOperands(op)) {
    dist::AxisList axes;
    bool fits = true;
    for (OpOperand &operand : op->getOpOperands()) {
      dist::LayoutAttr attribute = dist::findLayout(operand.get());
      dist::Layout layout = attribute ? attribute.getLayout() : dist::Layout();
      bool isTerm = layout.isPartial() && layout.reduction == Reduction::Sum;
      if (!llvm::is_contained(set, operand.getOperandNumber())) {
        fits &= !layout.isPartial();
      } else {
        fits &= isTerm && (axes.empty() || llvm::equal(axes, layout.partial)); // attributes keep axes sorted
        axes = layout.partial;
      }
    }
    if (fits) {
      return axes;
    }
  }
  return {};
}

} // namespace ashlar::layout
