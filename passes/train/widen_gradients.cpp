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

using Operands = SmallVector<unsigned, 2>;

// Returns which operands an op takes in f32 when it gives its sum in f32; nothing when it gives none.
std::optional<Operands> summedOperands(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Operands>>(op)
      .Case<ContractionOpInterface>([](auto) { return Operands(); })
      .Case<nn::AddOp>([](auto) { return Operands{0, 1}; })
      .Case<nn::PadOp, nn::ReshapeOp, nn::TransposeOp>([](auto) { return Operands{0}; })
      .Case<nn::ReduceOp>(
          [](nn::ReduceOp reduce) { return reduce.getKind() == Reduction::Sum ? std::optional(Operands{0}) : std::nullopt; })
      .Case<nn::ScatterAddOp>([](auto) { return Operands{1}; })
      .Default([](Operation *) { return std::nullopt; });
}

// The same for what makes `value`, whose result goes nowhere else.
std::optional<Operands> summedOperandsOf(Value value) {
  Operation *op = value.getDefiningOp();
  return op && value.hasOneUse() ? summedOperands(op) : std::nullopt;
}

bool isNarrow(Value value) {
  return isNarrowFloat(typeOf(value).getElementType());
}

// Returns `value`, of bf16 or f16, in f32, for a sum of `size` elements. A sum of the same size that was rounded, as that over the
// iterations of a repeat is, counts as it was before; what is larger is read where it is narrow.
Value convertToWide(Value value, int64_t size) {
  auto rounding = value.getDefiningOp<nn::CastOp>();
  if (rounding && rounding.getInput().getType().getElementType().isF32() && typeOf(value).getNumElements() <= size) {
    return rounding.getInput();
  }
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  return nn::CastOp::create(builder, value.getLoc(), typeOf(value).clone(builder.getF32Type()), value);
}

// Returns the op again, with its summed operands from `wide` and the result in f32.
Value cloneWide(Operation *op, ArrayRef<unsigned> operands, const DenseMap<Value, Value> &wide) {
  OpBuilder builder(op);
  IRMapping mapping;
  for (unsigned number : operands) {
    mapping.map(op->getOperand(number), wide.at(op->getOperand(number)));
  }
  Value result = builder.clone(*op, mapping)->getResult(0);
  result.setType(typeOf(result).clone(builder.getF32Type()));
  return result;
}

// Returns `value`, of bf16 or f16, in f32: with the rounding left out where the op that makes it can give its sum in f32, and its result
// goes nowhere else. Such ops make a tree.
Value widened(Value root) {
  SmallVector<Value> values = {root}; // users first
  for (size_t next = 0; next < values.size(); ++next) {
    if (std::optional<Operands> operands = summedOperandsOf(values[next])) {
      for (unsigned number : *operands) {
        values.push_back(values[next].getDefiningOp()->getOperand(number));
      }
    }
  }
  SmallVector<std::optional<Operands>> summed = llvm::map_to_vector(values, [](Value value) { return summedOperandsOf(value); });
  DenseMap<Value, Value> wide;
  for (auto [value, operands] : llvm::reverse(llvm::zip_equal(values, summed))) {
    wide[value] = operands ? cloneWide(value.getDefiningOp(), *operands, wide) : convertToWide(value, typeOf(root).getNumElements());
  }
  return wide.at(root);
}

// Widens what `value`, of f32, is a sum of.
void widenTerms(Value value) {
  SmallVector<Value> pending = {value};
  DenseSet<Value> seen;
  while (!pending.empty()) {
    Value term = pending.pop_back_val();
    if (!seen.insert(term).second) {
      continue;
    }
    if (auto sum = term.getDefiningOp<nn::AddOp>()) {
      pending.append({sum.getRhs(), sum.getLhs()});
      continue;
    }
    auto cast = term.getDefiningOp<nn::CastOp>();
    if (cast && isNarrow(cast.getInput())) {
      Value wide = widened(cast.getInput());
      cast.replaceAllUsesWith(wide);
      auto conversion = wide.getDefiningOp<nn::CastOp>();
      if (!conversion || conversion.getInput() != cast.getInput()) {
        pending.push_back(wide); // may be a sum of other conversions
      }
    }
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
