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
  int64_t numOthers = 0;   // tensors without names with other layouts by these rules, and operands with given layouts
  bool isMinimal = false;  // without any one of them more tensors get another layout
  bool isShortest = false; // all shorter lists of the rules that were looked at were tried, too
};

// Returns rules that lead to the layouts of `found`, given layouts in the same programs as those in `module`; the given layouts of `module`
// hold besides the rules, and no rule names them. All tensors that rules can name get their layouts: variables, inputs, outputs and tensors
// between nodes, in all programs. Tensors inside of nodes and of the backward pass get the inferred layouts.
//
// A candidate rule names one tensor, or all tensors whose names differ in their numbers only and that have one layout ("layer*.fc.weight"),
// or the matches of two such rules of one layout, where a glob for both matches nothing with another layout ("layer*.*.weight"). Where most
// tensors of a name up to numbers have one layout, one rule names all of them, with a lower precedence than the rules that name the others.
// Where fewer tensors get other layouts so, the rules for parameters and state have priority 1: then the layouts of computation do not
// follow from their storage. Rules without effect are removed: state first, then outputs, tensors between nodes, inputs, parameters; then,
// in small programs, all shorter lists are tried. Time: an inference for each list that is tried; their number is bounded by the ops.
mlir::FailureOr<RulesOfLayouts> findRules(mlir::ModuleOp module, mlir::ModuleOp found);

// Returns a copy of a module to which the layouts of rules are given.
mlir::OwningOpRef<mlir::ModuleOp> giveRules(mlir::ModuleOp module, llvm::ArrayRef<LayoutRule> rules);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_RULES_OF_LAYOUTS_H
