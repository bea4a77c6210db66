// SPDX-License-Identifier: Apache-2.0
//
// Pieces of the ops' scalar forms (ScalarOpInterface). The operands are scalars of the computed type (element_type.h), where integers have
// no sign: whether the element type has one is a parameter.

#ifndef ASHLAR_DIALECTS_NN_OPS_SCALAR_CODE_H
#define ASHLAR_DIALECTS_NN_OPS_SCALAR_CODE_H

#include "dialects/nn/nn.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ashlar::nn::scalar {

// Returns whether a scalar is a float.
bool isFloat(mlir::Value value);

// Returns whether the elements of operand 0 of an op are integers without a sign.
bool hasNoSign(mlir::Operation *op);

// Returns a constant of a float or integer type.
mlir::Value constant(mlir::ImplicitLocOpBuilder &b, mlir::Type type, double value);

// Returns the comparison of two scalars; of floats, NaN is only unequal.
mlir::Value compare(mlir::ImplicitLocOpBuilder &b, Predicate predicate, mlir::Value lhs, mlir::Value rhs, bool isUnsigned = false);

// Returns whether a scalar is larger than 0.
mlir::Value isPositive(mlir::ImplicitLocOpBuilder &b, mlir::Value x, bool isUnsigned = false);

// Returns the larger or the smaller of two scalars; a NaN wins.
mlir::Value extremum(mlir::ImplicitLocOpBuilder &b, bool isMax, mlir::Value lhs, mlir::Value rhs, bool isUnsigned,
                     mlir::arith::FastMathFlags flags = mlir::arith::FastMathFlags::none);

// Returns the quotient of two scalars. Integers: x / 0 is 0 and the lowest value / -1 wraps around, where the processor's instruction would
// trap.
mlir::Value divide(mlir::ImplicitLocOpBuilder &b, mlir::Value lhs, mlir::Value rhs, bool isUnsigned = false);

// Returns the number in [0, 1) that nn.random draws, as `type`; `place`: an element index, seed, counter and stream.
mlir::Value uniform(mlir::ImplicitLocOpBuilder &b, mlir::Type type, mlir::ValueRange place);

// Returns operands[0] and operands[1] combined by the op for floats or the op for integers; folded, so that a constant exponent of a power
// is found.
template <typename FloatOp, typename IntOp> mlir::Value arithmetic(mlir::ImplicitLocOpBuilder &b, mlir::ValueRange operands) {
  if (isFloat(operands[0])) {
    return b.createOrFold<FloatOp>(operands[0], operands[1]);
  }
  return IntOp::create(b, operands[0], operands[1]);
}

} // namespace ashlar::nn::scalar

#endif // ASHLAR_DIALECTS_NN_OPS_SCALAR_CODE_H
