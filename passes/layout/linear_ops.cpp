// SPDX-License-Identifier: Apache-2.0
//
// The table of linear ops. Broadcasts are left out: a sum is never cheaper after them.

#include "passes/layout/linear_ops.h"

#include "dialects/nn/nn.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

// Returns true for a conversion of floats that rounds nothing. One that rounds is not linear: the terms would be rounded one by one.
bool widens(nn::CastOp op) {
  auto from = dyn_cast<FloatType>(op.getInput().getType().getElementType()), to = dyn_cast<FloatType>(op.getType().getElementType());
  return from && to && from.getWidth() < to.getWidth();
}

} // namespace

SmallVector<SmallVector<unsigned, 2>> linearOperands(Operation *op) {
  using Sets = SmallVector<SmallVector<unsigned, 2>>;
  bool isFloat = op->getNumResults() == 1 && isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
  return TypeSwitch<Operation *, Sets>(op)
      .Case<nn::AddOp, nn::SubOp>([](auto) { return Sets{{0, 1}}; })
      .Case<nn::MulOp>([](auto) { return Sets{{0}, {1}}; })
      .Case<nn::DivOp>([&](auto) { return isFloat ? Sets{{0}} : Sets(); }) // integers are truncated
      .Case([](nn::CastOp cast) { return widens(cast) ? Sets{{0}} : Sets(); })
      .Case<nn::NegOp, nn::ReshapeOp, nn::SliceOp, nn::TransposeOp>([](auto) { return Sets{{0}}; })
      .Case<nn::ReduceOp>([](nn::ReduceOp reduce) { return reduce.getKind() == Reduction::Sum ? Sets{{0}} : Sets(); })
      .Default([](Operation *) { return Sets(); });
}

dist::AxisList termAxes(Operation *op) {
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
