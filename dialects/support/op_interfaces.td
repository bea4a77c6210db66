// SPDX-License-Identifier: Apache-2.0
//
// What an op declares about itself so that no pass has to know it: how it may be split, its gradient, what it is composed of.

#ifndef ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_TD
#define ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op with a sharding rule: its dims written as factors, like an einsum (`ShardingRule`). Layout inference, partitioning and the cost
    model read nothing else.
  }];
  let methods = [
    InterfaceMethod<"Returns the factors of this op's operands and results.",
                    "::ashlar::ShardingRule", "getShardingRule", (ins)>
  ];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    A differentiable op. `buildGradients` gets the gradient of every result (null where nothing depends on it) and sets the gradient of
    every operand it can reach; an operand left null has gradient zero (labels, indices).
  }];
  let methods = [
    InterfaceMethod<"Builds the gradients of the operands at the builder's insertion point.", "void", "buildGradients",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGradients,
                         "::llvm::MutableArrayRef<::mlir::Value>":$operandGradients)>
  ];
}

def ExpandableOpInterface : OpInterface<"ExpandableOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op that is a composition of others. Its expansion gives the same numbers up to rounding, on global and on local shapes. It is expanded
    where a dim that it computes as a whole is split (FactorKind::Expanded), and before lowering.
  }];
  let methods = [
    InterfaceMethod<"Builds the op's one result from other ops at the builder's insertion point.", "::mlir::Value", "buildExpansion",
                    (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def IndexingOpInterface : OpInterface<"IndexingOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op that finds the rows of a tensor by number. A number outside of the tensor has no effect, so a device that holds a piece of the rows
    counts the numbers from its first one and leaves all others to other devices; padding needs no other mask than such a number.
  }];
  let methods = [
    InterfaceMethod<"Returns the operand that holds the numbers.", "::mlir::OpOperand &", "getIndicesMutable", (ins)>,
    InterfaceMethod<"Returns the operand or result whose dim 0 they count.", "::mlir::Value", "getIndexed", (ins)>
  ];
}

#endif // ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_TD
