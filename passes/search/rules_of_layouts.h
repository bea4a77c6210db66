// SPDX-License-Identifier: Apache-2.0
//
// Layouts as the rules that a person would write for them: a short list from which inference leads to all of them.

#ifndef ASHLAR_PASSES_SEARCH_RULES_OF_LAYOUTS_H
#define ASHLAR_PASSES_SEARCH_RULES_OF_LAYOUTS_H

#include "dialects/dist/dist.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace ashlar::search {

// A rule of a job, "rules { match: "fc1.weight" layout: "[{tp}, {}]" }": the layout of every tensor whose name a glob matches.
struct LayoutRule {
  std::string match;
  dist::LayoutAttr layout;
  int64_t priority = 0; // lower ones propagate first
};

struct RulesOfLayouts {
  std::vector<LayoutRule> rules;
  int64_t numOthers = 0;   // tensors without names that get other layouts by these rules, and operands that ops are told how to take
  bool isMinimal = false;  // without any one of them more tensors get another layout
  bool isShortest = false; // all shorter lists of the rules that were looked at were tried, too
};

// Returns rules that lead to the layouts of `found`, which are given layouts in the same programs as those of `module`; what is given in
// `module` is given beside the rules, and no rule names it. All tensors that rules can name get their layouts: variables, inputs, outputs
// and what is between nodes, in all programs. Those inside of nodes and of the backward pass get what inference makes of that.
//
// A rule that is looked at names one tensor, or all whose names differ in their numbers only and that are laid out alike
// ("layer*.fc.weight"), or what two such rules of one layout do, where a glob for both matches nothing that is laid out otherwise
// ("layer*.*.weight"). Where most of what differs in its numbers only is laid out alike, one rule names all of it, with a priority behind
// that of rules which name the others. Where fewer tensors get other layouts so, those for parameters and state have priority 1: what is
// computed does not follow from how they are kept, then. From all of them those are left out without which nothing changes: state first,
// then outputs, what is between nodes, inputs, parameters; then, in small programs, all shorter lists are tried. Time: an inference for
// each list that is tried; their number is bounded by the ops.
mlir::FailureOr<RulesOfLayouts> findRules(mlir::ModuleOp module, mlir::ModuleOp found);

// Returns a copy of a module to which the layouts of rules are given.
mlir::OwningOpRef<mlir::ModuleOp> giveRules(mlir::ModuleOp module, llvm::ArrayRef<LayoutRule> rules);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_RULES_OF_LAYOUTS_H
