// SPDX-License-Identifier: Apache-2.0
//
// Answers of nn ops to ComputeOpInterface::passesParts.

#include "dialects/nn/parts.h"

#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::nn::parts {

using Operands = llvm::SmallBitVector;

namespace {

bool isOnly(const Operands &partial, unsigned operand) {
  return partial.test(operand) && partial.count() == 1;
}

bool isFirst(const Operands &partial) {
  return isOnly(partial, 0);
}

FloatType floatTypeOf(Value value) {
  return dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
}

} // namespace

bool none(Operation *, Reduction, const Operands &) {
  return false;
}

bool moved(Operation *, Reduction, const Operands &partial) {
  return partial.all();
}

bool carried(Operation *, Reduction, const Operands &partial) {
  return isFirst(partial);
}

bool linear(Operation *, Reduction kind, const Operands &partial) {
  return kind == Reduction::Sum && partial.all();
}

bool bilinear(Operation *, Reduction kind, const Operands &partial) {
  return kind == Reduction::Sum && partial.count() == 1;
}

bool dividend(Operation *op, Reduction kind, const Operands &partial) {
  return kind == Reduction::Sum && isFirst(partial) && floatTypeOf(op->getResult(0));
}

bool widened(Operation *op, Reduction kind, const Operands &partial) {
  FloatType from = floatTypeOf(op->getOperand(0)), to = floatTypeOf(op->getResult(0));
  return kind == Reduction::Sum && isFirst(partial) && from && to && from.getWidth() < to.getWidth();
}

bool chosen(Operation *op, Reduction kind, const Operands &partial) {
  if (partial.test(0)) {
    return false;
  }
  // Zeros are terms of zeros.
  return partial.count() == 2 || (kind == Reduction::Sum && partial.count() == 1 && isZero(op->getOperand(partial.test(1) ? 2 : 1)));
}

bool larger(Operation *, Reduction kind, const Operands &partial) {
  return kind == Reduction::Max && partial.all();
}

bool smaller(Operation *, Reduction kind, const Operands &partial) {
  return kind == Reduction::Min && partial.all();
}

bool reduced(Operation *op, Reduction kind, const Operands &partial) {
  return cast<nn::ReduceOp>(op).getKind() == kind && partial.all();
}

bool attended(Operation *, Reduction kind, const Operands &partial) {
  return kind == Reduction::Sum && isOnly(partial, 2);
}

bool attentionGradient(Operation *, Reduction kind, const Operands &partial) {
  return kind == Reduction::Sum && isOnly(partial, 5);
}

} // namespace ashlar::nn::parts
