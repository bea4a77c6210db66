// SPDX-License-Identifier: Apache-2.0
//
// The explanation of a strategy in reports: the rules that lead to it, and the runner-up for each block of the model.

#ifndef ASHLAR_PASSES_SEARCH_EXPLAIN_STRATEGY_H
#define ASHLAR_PASSES_SEARCH_EXPLAIN_STRATEGY_H

#include "passes/search/solver/effort.h"
#include "passes/search/strategies.h"

namespace ashlar::search {

// Attribute of modules that go into the search (unit): the result is to be explained, which takes about as long again.
inline constexpr llvm::StringLiteral kExplainAttr = "dist.explain_search";

// How the search that found a strategy sees its problem.
struct ExplainOptions {
  int64_t smallBytes = 0; // of LayoutGraph
  int64_t limit = 0;      // bytes of a device; 0: any number
  // The bounds of an effort of its own: blocks that are left when it is over are left out.
  int64_t units = Effort::kUnits;
  double seconds = Effort::kSeconds;
};

// Fields of a SearchAttr.
struct Explanation {
  dist::RuleListAttr rules; // null where none were found
  llvm::SmallVector<dist::RunnerUpAttr> runnersUp;
  bool isStopped = false; // the clock ended the search for runners-up
};

// Finds the rules that lead to a strategy (rules_of_layouts.h) and its runners-up (runner_up.h), each against it by estimates. `module`
// holds the given layouts before the search, `given` the strategy that was taken, `taken` its estimate, `choices` its choices, if the
// search found it.
Explanation explainStrategy(mlir::ModuleOp module, mlir::ModuleOp given, const Prediction &taken, const Choices *choices,
                            const ExplainOptions &options);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_EXPLAIN_STRATEGY_H
