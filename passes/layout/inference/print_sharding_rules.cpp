// SPDX-License-Identifier: Apache-2.0
//
// ashlar-print-sharding-rules: each op's rule as a remark.

#include "dialects/support/op_interfaces.h"
#include "passes/layout/passes.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_PRINTSHARDINGRULESPASS
#include "passes/layout/passes.h.inc"

namespace {

struct PrintShardingRules : impl::PrintShardingRulesPassBase<PrintShardingRules> {
  using PrintShardingRulesPassBase::PrintShardingRulesPassBase;

  void runOnOperation() override {
    getOperation().walk([](ShardingRuleOpInterface op) { op->emitRemark() << op.getShardingRule().toString(); });
  }
};

} // namespace

} // namespace ashlar::layout
