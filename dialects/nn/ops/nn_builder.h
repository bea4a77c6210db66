// SPDX-License-Identifier: Apache-2.0
//
// Builds gradients and expansions, which consist of nn ops. Formulas of several ops run in f32 where the tensors are narrower, and are
// rounded once.

#ifndef ASHLAR_DIALECTS_NN_OPS_NN_BUILDER_H
#define ASHLAR_DIALECTS_NN_OPS_NN_BUILDER_H

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

namespace ashlar::nn {

using Gradients = llvm::MutableArrayRef<mlir::Value>;

// A builder at the location of an op, with one short function for each op that its gradient or expansion consists of.
class NnBuilder : public mlir::ImplicitLocOpBuilder {
public:
  NnBuilder(mlir::Operation *op, mlir::OpBuilder &builder) : mlir::ImplicitLocOpBuilder(op->getLoc(), builder) {}

  mlir::Value constant(mlir::RankedTensorType type, double value) { return ConstantOp::create(*this, splat(type, value)); }
  mlir::Value neg(mlir::Value x) { return NegOp::create(*this, x); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return AddOp::create(*this, x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return SubOp::create(*this, x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return MulOp::create(*this, x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return DivOp::create(*this, x, y); }

  // Returns x + value, x * value.
  mlir::Value plus(mlir::Value x, double value) { return add(x, constant(typeOf(x), value)); }
  mlir::Value times(mlir::Value x, double value) { return mul(x, constant(typeOf(x), value)); }

  // Returns value - x.
  mlir::Value minusFrom(double value, mlir::Value x) { return sub(constant(typeOf(x), value), x); }

  mlir::Value compare(Predicate predicate, mlir::Value x, mlir::Value y) {
    return CompareOp::create(*this, typeOf(x).clone(getI1Type()), predicate, x, y);
  }
  mlir::Value compare(Predicate predicate, mlir::Value x, double value) { return compare(predicate, x, constant(typeOf(x), value)); }
  mlir::Value select(mlir::Value condition, mlir::Value onTrue, mlir::Value onFalse) {
    return SelectOp::create(*this, onTrue.getType(), condition, onTrue, onFalse);
  }
  mlir::Value selectOrZero(mlir::Value condition, mlir::Value onTrue) { return select(condition, onTrue, constant(typeOf(onTrue), 0)); }
  mlir::Value zeroOrSelect(mlir::Value condition, mlir::Value onFalse) { return select(condition, constant(typeOf(onFalse), 0), onFalse); }

  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> dims) { return ReduceOp::create(*this, Reduction::Sum, x, dims); }

  // Returns x with this element type, or that of `like`.
  mlir::Value as(mlir::Type element, mlir::Value x) {
    return typeOf(x).getElementType() == element ? x : CastOp::create(*this, typeOf(x).clone(element), x).getResult();
  }
  mlir::Value as(mlir::Value like, mlir::Value x) { return as(typeOf(like).getElementType(), x); }

  // Returns log(sum(exp(x))) along a dim; -infinity where all of x is.
  mlir::Value logSumExp(mlir::Value x, int64_t dim) {
    mlir::Value largest = ReduceOp::create(*this, Reduction::Max, x, llvm::ArrayRef<int64_t>{dim});
    mlir::Value base = zeroOrSelect(compare(Predicate::Eq, largest, -std::numeric_limits<double>::infinity()), largest);
    mlir::Value weights = ExpOp::create(*this, sub(x, broadcastAlong(base, {dim}, typeOf(x).getShape())));
    return add(base, LogOp::create(*this, sum(weights, {dim})));
  }

  // Returns x, in f32 when its type is narrower.
  mlir::Value wide(mlir::Value x) {
    mlir::RankedTensorType type = typeOf(x);
    return isNarrowFloat(type.getElementType()) ? CastOp::create(*this, type.clone(getF32Type()), x).getResult() : x;
  }

  // Returns x replicated along `dims`, dims of the result of type `shape` which x lacks: the inverse of a reduction.
  mlir::Value broadcastAlong(mlir::Value x, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> shape) {
    return BroadcastOp::create(*this, typeOf(x).clone(shape), x, otherDims(dims, shape.size()));
  }

  // Returns the dims of a tensor of `rank` that are not in `dims`.
  static llvm::SmallVector<int64_t> otherDims(llvm::ArrayRef<int64_t> dims, int64_t rank) {
    llvm::SmallVector<int64_t> others;
    for (int64_t d = 0; d < rank; ++d) {
      if (!llvm::is_contained(dims, d)) {
        others.push_back(d);
      }
    }
    return others;
  }
};

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_OPS_NN_BUILDER_H
