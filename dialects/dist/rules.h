// SPDX-License-Identifier: Apache-2.0
//
// Rules of the user as attributes of a module, read into rule sets; and their errors as diagnostics.

#ifndef ASHLAR_DIALECTS_DIST_RULES_H
#define ASHLAR_DIALECTS_DIST_RULES_H

#include "dialects/dist/dist.h"
#include "dialects/support/rule_set.h"

namespace ashlar::dist {

RuleHead headOf(RuleAttr rule);
RuleHead headOf(SettingAttr setting);

// Reads the rules of a module that have a value of this name: `attribute` is an array of SettingAttr, or absent.
RuleSet<mlir::Attribute> readRules(mlir::ModuleOp module, llvm::StringRef attribute, llvm::StringRef valueName, RuleScope scope,
                                   RuleIndex::Reach reach = RuleIndex::Reach::Names);

// Reads the rules about pipeline stages (stages.h): by glob over the paths of ops, an i64.
RuleSet<mlir::Attribute> readStageRules(mlir::ModuleOp module);

// Opens an error about a rule with its place: job.txtpb:14: rule "fc1.weight": ...
mlir::InFlightDiagnostic emitRuleError(mlir::MLIRContext *context, const RuleHead &rule);

// Emits the error of a rule set, and fails, unless it is empty.
mlir::LogicalResult emitIfError(mlir::MLIRContext *context, llvm::StringRef error);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_RULES_H
