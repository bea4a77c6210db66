// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the ops' reference semantics (ReferenceOpInterface), which are plain loops in double precision.

#ifndef ASHLAR_DIALECTS_NN_OPS_EVALUATION_H
#define ASHLAR_DIALECTS_NN_OPS_EVALUATION_H

#include "dialects/support/reference_tensor.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/Operation.h"

namespace ashlar::nn {

using reference::forEachIndex;
using reference::Index;
using reference::Tensor;

// Each returns the result of an element-wise op of one operand or two: element i is function(element i of the operands), on floats, on
// integers with a sign, or on those of ui64.
template <typename F> Tensor mapFloats(mlir::Operation *op, const Tensor &x, F function) {
  Tensor result(typeOf(op->getResult(0)));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setFloat(i, function(x.getFloat(i)));
  }
  return result;
}

template <typename F> Tensor mapFloats(mlir::Operation *op, const Tensor &x, const Tensor &y, F function) {
  Tensor result(typeOf(op->getResult(0)));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setFloat(i, function(x.getFloat(i), y.getFloat(i)));
  }
  return result;
}

template <typename F> Tensor mapInts(mlir::Operation *op, const Tensor &x, F function) {
  Tensor result(typeOf(op->getResult(0)));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setInt(i, function(x.getInt(i)));
  }
  return result;
}

template <typename F> Tensor mapInts(mlir::Operation *op, const Tensor &x, const Tensor &y, F function) {
  Tensor result(typeOf(op->getResult(0)));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setInt(i, function(x.getInt(i), y.getInt(i)));
  }
  return result;
}

// Returns the bits of an integer as a word: sums, differences and products of words wrap around.
inline uint64_t wordOf(int64_t x) {
  return static_cast<uint64_t>(x);
}

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_OPS_EVALUATION_H
