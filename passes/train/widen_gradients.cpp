// SPDX-License-Identifier: Apache-2.0
//
// See widen_gradients.h.

#include "passes/train/widen_gradients.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::train {

namespace {

Value widened(Value value);

// Returns the op again, with the operands in `which` and the result in f32.
Value cloneWide(Operation *op, ArrayRef<unsigned> which) {
  OpBuilder builder(op);
  IRMapping mapping;
  for (unsigned number : which) {
    mapping.map(op->getOperand(number), widened(op->getOperand(number)));
  }
  Operation *copy = builder.clone(*op, mapping);
  Value result = copy->getResult(0);
  result.setType(typeOf(result).clone(builder.getF32Type()));
  return result;
}

// Returns `value`, of bf16 or f16, in f32: with the rounding left out where the op that makes it can give its sum in f32, and its result
// goes nowhere else.
Value widened(Value value) {
  Operation *op = value.getDefiningOp();
  Type f32 = Float32Type::get(value.getContext());
  if (op && value.hasOneUse()) {
    Value result =
        llvm::TypeSwitch<Operation *, Value>(op)
            .Case<ContractionOpInterface>([](auto product) { return cloneWide(product, {}); })
            .Case<nn::AddOp>([](auto sum) { return cloneWide(sum, {0, 1}); })
            .Case<nn::PadOp, nn::ReshapeOp, nn::TransposeOp>([](auto view) { return cloneWide(view, {0}); })
            .Case<nn::ReduceOp>([](nn::ReduceOp reduce) { return reduce.getKind() == Reduction::Sum ? cloneWide(reduce, {0}) : Value(); })
            .Case<nn::ScatterAddOp>([](auto scatter) { return cloneWide(scatter, {1}); })
            .Default([](Operation *) { return Value(); });
    if (result) {
      return result;
    }
  }
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  return nn::CastOp::create(builder, value.getLoc(), typeOf(value).clone(f32), value);
}

// Widens what `value`, of f32, is a sum of.
void widenTerms(Value value) {
  if (auto sum = value.getDefiningOp<nn::AddOp>()) {
    widenTerms(sum.getLhs());
    widenTerms(sum.getRhs());
    return;
  }
  auto cast = value.getDefiningOp<nn::CastOp>();
  if (cast && isNarrowFloat(cast.getInput().getType().getElementType())) {
    cast.replaceAllUsesWith(widened(cast.getInput()));
  }
}

} // namespace

void widenGradients(func::FuncOp function) {
  for (auto gradient : function.front().getOps<nn::GradientOp>()) {
    if (typeOf(gradient.getValue()).getElementType().isF32()) {
      widenTerms(gradient.getValue());
    }
  }
}

} // namespace ashlar::train
