// SPDX-License-Identifier: Apache-2.0
//
// See rules.h.

#include "dialects/dist/rules.h"

#include "dialects/dist/stages.h"

using namespace mlir;

namespace ashlar::dist {

namespace {

template <typename RuleOrSetting> RuleHead makeHead(RuleOrSetting rule) {
  return {rule.getMatch().str(), rule.getPriority(), rule.getOrigin() ? rule.getOrigin().str() : ""};
}

} // namespace

RuleHead headOf(RuleAttr rule) {
  return makeHead(rule);
}

RuleHead headOf(SettingAttr setting) {
  return makeHead(setting);
}

RuleSet<Attribute> readRules(ModuleOp module, StringRef attribute, StringRef valueName, RuleScope scope, RuleIndex::Reach reach) {
  RuleSet<Attribute> rules(std::move(scope), reach);
  if (auto settings = module->getAttrOfType<ArrayAttr>(attribute)) {
    for (auto setting : settings.getAsRange<SettingAttr>()) {
      if (Attribute value = setting.getValues().get(valueName)) {
        rules.add(headOf(setting), value);
      }
    }
  }
  return rules;
}

RuleSet<Attribute> readStageRules(ModuleOp module) {
  return readRules(module, kStageRulesAttr, kStageAttr, {{NameKind::Op}, ", which pipeline_stage is for"});
}

InFlightDiagnostic emitRuleError(MLIRContext *context, const RuleHead &rule) {
  InFlightDiagnostic error = emitError(UnknownLoc::get(context));
  error << rule.lead();
  return error;
}

LogicalResult emitIfError(MLIRContext *context, StringRef error) {
  return error.empty() ? success() : LogicalResult(emitError(UnknownLoc::get(context)) << error);
}

} // namespace ashlar::dist
