// SPDX-License-Identifier: Apache-2.0
//
// Copies of constants and indices.

#include "passes/layout/copy_sources.h"

#include "dialects/support/op_interfaces.h"

using namespace mlir;

namespace ashlar::layout {

void copySources(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    if (!isa<ShardingRuleOpInterface>(op) || op.getNumOperands() > 0 || op.use_empty()) {
      continue;
    }
    for (OpOperand &use : llvm::make_early_inc_range(llvm::drop_begin(op.getUses()))) {
      use.set(OpBuilder(&op).clone(op)->getResult(0));
    }
  }
}

} // namespace ashlar::layout
