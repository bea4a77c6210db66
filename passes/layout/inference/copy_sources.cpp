// SPDX-License-Identifier: Apache-2.0
//
// Copies of constants, indices and repeated scalars.

#include "passes/layout/inference/copy_sources.h"

#include "dialects/nn/nn.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::layout {

bool isSource(Operation &op) {
  if (!isa<ShardingRuleOpInterface>(op)) {
    return false;
  }
  bool repeatsScalar = op.hasTrait<MovesElements>() && !op.hasAttr(nn::kOutputsAttr) &&
                       llvm::all_of(op.getOperands(), [](Value operand) { return typeOf(operand).getRank() == 0; });
  return op.getNumOperands() == 0 || repeatsScalar;
}

void copySources(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    if (!isSource(op) || op.use_empty()) {
      continue;
    }
    for (OpOperand &use : llvm::make_early_inc_range(llvm::drop_begin(op.getUses()))) {
      use.set(OpBuilder(&op).clone(op)->getResult(0));
    }
  }
}

} // namespace ashlar::layout
