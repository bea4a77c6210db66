// SPDX-License-Identifier: Apache-2.0
//
// Pieces of the ops' scalar forms.

#include "dialects/nn/ops/scalar_code.h"

#include "dialects/support/integer_type.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::nn::scalar {

bool isFloat(Value value) {
  return isa<FloatType>(value.getType());
}

bool hasNoSign(Operation *op) {
  return isUnsigned(typeOf(op->getOperand(0)).getElementType());
}

Value constant(ImplicitLocOpBuilder &b, Type type, double value) {
  if (isa<FloatType>(type)) {
    return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
  }
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, static_cast<int64_t>(value)));
}

Value compare(ImplicitLocOpBuilder &b, Predicate predicate, Value lhs, Value rhs, bool isUnsigned) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I ints[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I words[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  auto which = static_cast<size_t>(predicate);
  if (isFloat(lhs)) {
    return arith::CmpFOp::create(b, floats[which], lhs, rhs);
  }
  return arith::CmpIOp::create(b, isUnsigned ? words[which] : ints[which], lhs, rhs);
}

Value isPositive(ImplicitLocOpBuilder &b, Value x, bool isUnsigned) {
  return compare(b, Predicate::Gt, x, constant(b, x.getType(), 0), isUnsigned);
}

Value extremum(ImplicitLocOpBuilder &b, bool isMax, Value lhs, Value rhs, bool isUnsigned, arith::FastMathFlags flags) {
  if (isFloat(lhs)) {
    return isMax ? Value(arith::MaximumFOp::create(b, lhs, rhs, flags)) : Value(arith::MinimumFOp::create(b, lhs, rhs, flags));
  }
  if (isUnsigned) {
    return isMax ? Value(arith::MaxUIOp::create(b, lhs, rhs)) : Value(arith::MinUIOp::create(b, lhs, rhs));
  }
  return isMax ? Value(arith::MaxSIOp::create(b, lhs, rhs)) : Value(arith::MinSIOp::create(b, lhs, rhs));
}

Value divide(ImplicitLocOpBuilder &b, Value lhs, Value rhs, bool isUnsigned) {
  if (isFloat(lhs)) {
    return arith::DivFOp::create(b, lhs, rhs);
  }
  Type type = lhs.getType();
  Value zero = constant(b, type, 0), one = constant(b, type, 1), byZero = compare(b, Predicate::Eq, rhs, zero);
  if (isUnsigned) {
    Value quotient = arith::DivUIOp::create(b, lhs, arith::SelectOp::create(b, byZero, one, rhs));
    return arith::SelectOp::create(b, byZero, zero, quotient);
  }
  Value byMinusOne = compare(b, Predicate::Eq, rhs, constant(b, type, -1));
  Value safe = arith::SelectOp::create(b, arith::OrIOp::create(b, byZero, byMinusOne), one, rhs);
  Value quotient = arith::DivSIOp::create(b, lhs, safe);
  Value negated = arith::SubIOp::create(b, zero, lhs);
  return arith::SelectOp::create(b, byZero, zero, arith::SelectOp::create(b, byMinusOne, negated, quotient));
}

} // namespace ashlar::nn::scalar
