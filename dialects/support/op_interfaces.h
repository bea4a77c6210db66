// SPDX-License-Identifier: Apache-2.0
//
// C++ side of op_interfaces.td.

#ifndef ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_H
#define ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_H

#include "dialects/support/dim_order.h"
#include "dialects/support/enums.h"
#include "dialects/support/reference_tensor.h"
#include "dialects/support/sharding_rule.h"
#include "dialects/support/tensor_size.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallBitVector.h"

namespace ashlar {

// The begin of a device's part of a windowed dim of an operand: the number of its first position and of the first element of its run, in
// the whole tensor, as scalars of i64.
struct RunStart {
  mlir::Value position, element;
};
using RunStartBuilder = llvm::function_ref<RunStart(unsigned operand, unsigned dim)>;

// The cost of an element of an op's result, in instructions of a processor.
enum class Cost {
  Free,         // it is read or made where it is used
  Simple,       // one or two
  Division,     // one, slow: a quotient, a root
  Function,     // a polynomial, as of an exponential
  LongFunction, // two of them
  Random,       // ten rounds of Philox
  Contraction   // a product and a sum for each element that is summed
};

// The class of a library call that decides its rate, besides its type: for a matrix product the smallest of rows, columns and inner size of
// a matrix, for a convolution or one of its gradients the fewer of the channels in and out of a group, for an attention or one of its
// gradients the smallest of rows, keys and width of a head.
struct RateClass {
  enum Kind { Product, Convolution, Attention } kind;
  int64_t size;
};

// The type of an op in mixed precision; docs/numbers.md has the table for users.
enum class Precision {
  Narrow, // the narrow type, whatever its operands are
  Wide,   // f32: small differences, sums and exponentials matter
  Follow, // f32 when an operand is a result of f32, else the narrow type
  Move,   // as Follow, but a tensor from outside stays as it is
  Source, // the op makes a tensor of nothing
  Convert // a conversion that the model asks for
};

template <typename Op> class MovesElements : public mlir::OpTrait::TraitBase<Op, MovesElements> {};
template <typename Op> class AliasesOperands : public mlir::OpTrait::TraitBase<Op, AliasesOperands> {};
template <typename Op> class RoundsNothing : public mlir::OpTrait::TraitBase<Op, RoundsNothing> {};
template <typename Op> class RepeatsBody : public mlir::OpTrait::TraitBase<Op, RepeatsBody> {};
template <typename Op> class DelaysSums : public mlir::OpTrait::TraitBase<Op, DelaysSums> {};

// Answers ShardingRuleOpInterface.
template <typename Op> class PassesDimsThrough : public mlir::OpTrait::TraitBase<Op, PassesDimsThrough> {
public:
  ShardingRule getShardingRule() {
    mlir::Operation *op = this->getOperation();
    return ShardingRule::elementwise(llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType()).getShape(), op->getNumOperands());
  }
};

// Answers ComputeOpInterface.
template <Cost cost, Precision precision, bool (*parts)(mlir::Operation *, Reduction, const llvm::SmallBitVector &)> struct Computes {
  template <typename Op> class Impl : public mlir::OpTrait::TraitBase<Op, Impl> {
  public:
    static Cost getCost() { return cost; }
    static Precision getPrecision() { return precision; }
    bool passesParts(Reduction kind, const llvm::SmallBitVector &partial) { return parts(this->getOperation(), kind, partial); }
  };
};

} // namespace ashlar

#include "dialects/support/op_interfaces.h.inc"

#endif // ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_H
