// SPDX-License-Identifier: Apache-2.0
//
// What reports say of a strategy that was taken: the rules that lead to it, and for each block of the model what it was against.

#ifndef ASHLAR_PASSES_SEARCH_EXPLAIN_STRATEGY_H
#define ASHLAR_PASSES_SEARCH_EXPLAIN_STRATEGY_H

#include "passes/search/strategies.h"

namespace ashlar::search {

// Attribute of modules that go into the search (unit): what is found is to be explained, which takes about as long again.
inline constexpr llvm::StringLiteral kExplainAttr = "dist.explain_search";

// How the search that found a strategy sees its problem.
struct ExplainOptions {
  int64_t runs = 1;       // of @train_step in a step
  int64_t smallBytes = 0; // of LayoutGraph
  int64_t limit = 0;      // bytes of a device; 0: any number
  double seconds = 10;    // after which the blocks that are left are left out
};

// Fields of a SearchAttr.
struct Explanation {
  dist::RuleListAttr rules; // null where none were found
  llvm::SmallVector<dist::RunnerUpAttr> runnersUp;
};

// Finds the rules that lead to a strategy (rules_of_layouts.h) and its runners-up (runner_up.h), with what price() predicts of each.
// `module` holds what was given before the search, `given` the strategy that was taken, `choices` its choices, where it is what the search
// found.
Explanation explainStrategy(mlir::ModuleOp module, mlir::ModuleOp given, const Choices *choices, const ExplainOptions &options);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_EXPLAIN_STRATEGY_H
