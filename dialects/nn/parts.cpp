// SPDX-License-Identifier: Apache-2.0
//
// Answers of nn ops to ComputeOpInterface::passesParts.

#include "dialects/nn/parts.h"

#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::nn::parts {

using Operands = llvm::SmallBitVector;

namespace {

bool isFirst(const Operands &partial) {
  return partial.test(0) && partial.count() == 1;
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

} // namespace ashlar::nn::parts
