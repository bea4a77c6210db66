// SPDX-License-Identifier: Apache-2.0
//
// Saved strategies as a pass.

#ifndef ASHLAR_COMPILER_STRATEGY_PASSES_TD
#define ASHLAR_COMPILER_STRATEGY_PASSES_TD

include "mlir/Pass/PassBase.td"

def ApplyStrategyPass : Pass<"ashlar-apply-strategy", "::mlir::ModuleOp"> {
  let summary = "Gives every value its layout in a saved strategy.";
  let description = [{
    Replaces ashlar-apply-rules; nothing is left to infer. A mesh axis that the strategy has in parts is replaced by its parts. The strategy
    must belong to this very module: a tensor or op that is missing on either side, or has another type, is an error, which names the first.

    Needs: a dist.mesh. Leaves: a layout, and its origin, on everything.
  }];
  let options = [
    Option<"file", "file", "std::string", /*default=*/"\"\"", "the strategy, as ashlarc --save-strategy wrote it">,
  ];
  let dependentDialects = ["::ashlar::dist::DistDialect"];
}

#endif // ASHLAR_COMPILER_STRATEGY_PASSES_TD
