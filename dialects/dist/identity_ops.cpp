// SPDX-License-Identifier: Apache-2.0
//
// The interfaces of the ops that are the identity on global values: the gradient of the operand is that of the result.

#include "dialects/dist/dist.h"

using namespace mlir;

namespace ashlar::dist {

void RedistributeOp::buildGradients(OpBuilder &, ValueRange resultGradients, MutableArrayRef<Value> operandGradients) {
  operandGradients[0] = resultGradients[0];
}

reference::Tensor RedistributeOp::evaluate(ArrayRef<reference::Tensor> operands) {
  return operands[0];
}

reference::Tensor AfterOp::evaluate(ArrayRef<reference::Tensor> operands) {
  return operands[0];
}

void BroadcastOp::buildGradients(OpBuilder &, ValueRange resultGradients, MutableArrayRef<Value> operandGradients) {
  operandGradients[0] = resultGradients[0];
}

ShardingRule BroadcastOp::getShardingRule() {
  return ShardingRule::elementwise(cast<RankedTensorType>(getType()).getShape(), /*numOperands=*/1);
}

} // namespace ashlar::dist
