// SPDX-License-Identifier: Apache-2.0
//
// Logic of bits, comparisons and choices.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/scalar_code.h"

using namespace mlir;

namespace ashlar::nn {

//===-- nn.not, nn.and, nn.or ---------------------------------------------------------------------------------------------------------===//

Value NotOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return arith::XOrIOp::create(b, in[0], scalar::constant(b, in[0].getType(), in[0].getType().isInteger(1) ? 1 : -1));
}

Tensor NotOp::evaluate(ArrayRef<Tensor> in) {
  const bool isBool = getType().getElementType().isInteger(1);
  return mapInts(*this, in[0], [isBool](int64_t x) { return isBool ? int64_t(!x) : ~x; });
}

Value AndOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return arith::AndIOp::create(b, in[0], in[1]);
}

Tensor AndOp::evaluate(ArrayRef<Tensor> in) {
  return mapInts(*this, in[0], in[1], [](int64_t x, int64_t y) { return x & y; });
}

Value OrOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return arith::OrIOp::create(b, in[0], in[1]);
}

Tensor OrOp::evaluate(ArrayRef<Tensor> in) {
  return mapInts(*this, in[0], in[1], [](int64_t x, int64_t y) { return x | y; });
}

//===-- nn.compare --------------------------------------------------------------------------------------------------------------------===//

namespace {

template <typename T> bool holds(Predicate predicate, T x, T y) {
  switch (predicate) {
  case Predicate::Eq:
    return x == y;
  case Predicate::Ne:
    return x != y;
  case Predicate::Lt:
    return x < y;
  case Predicate::Le:
    return x <= y;
  case Predicate::Gt:
    return x > y;
  case Predicate::Ge:
    return x >= y;
  }
  llvm_unreachable("unknown predicate");
}

} // namespace

Value CompareOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return scalar::compare(b, getPredicate(), in[0], in[1], scalar::hasNoSign(*this));
}

Tensor CompareOp::evaluate(ArrayRef<Tensor> operands) {
  Predicate predicate = getPredicate();
  Tensor result(getType());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    const Tensor &x = operands[0], &y = operands[1];
    result.setInt(i, x.isFloat()  ? holds(predicate, x.getFloat(i), y.getFloat(i))
                     : x.isWord() ? holds(predicate, wordOf(x.getInt(i)), wordOf(y.getInt(i)))
                                  : holds(predicate, x.getInt(i), y.getInt(i)));
  }
  return result;
}

//===-- nn.select ---------------------------------------------------------------------------------------------------------------------===//

void SelectOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[1] = b.selectOrZero(getCondition(), g[0]);
  out[2] = b.zeroOrSelect(getCondition(), g[0]);
}

Value SelectOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return arith::SelectOp::create(b, in[0], in[1], in[2]);
}

Tensor SelectOp::evaluate(ArrayRef<Tensor> operands) {
  Tensor result(getType());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.copyElement(i, operands[0].getInt(i) ? operands[1] : operands[2], i);
  }
  return result;
}

} // namespace ashlar::nn
