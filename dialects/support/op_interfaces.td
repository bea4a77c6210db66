// SPDX-License-Identifier: Apache-2.0
//
// What an op declares about itself so that no pass has to know it: how it may be split, and its gradient.

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

#endif // ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_TD
