// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-apply-settings; see passes.td.

#include "passes/train/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/rules.h"
#include "dialects/nn/nn.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_APPLYSETTINGSPASS
#include "passes/train/passes.h.inc"

namespace {

// Returns a value as people write it: without the type of a number.
std::string printValue(const Attribute &value) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (auto number = dyn_cast<FloatAttr>(value)) {
    out << llvm::format("%.15g", number.getValueAsDouble());
  } else {
    value.print(out, /*elideType=*/true);
  }
  return text;
}

struct ApplySettingsPass : public impl::ApplySettingsPassBase<ApplySettingsPass> {
  using ApplySettingsPassBase::ApplySettingsPassBase;

  // Gives each parameter the values that hold of one attribute. Fails with an error.
  LogicalResult apply(StringAttr attribute, const RuleSet<Attribute> &rules, ArrayRef<nn::VariableOp> parameters, const NameTable &names) {
    if (failed(dist::emitIfError(&getContext(), rules.checkMatches(names)))) {
      return failure();
    }
    const StringRef field = attribute.strref().split('.').second;
    for (nn::VariableOp parameter : parameters) {
      const RuleVerdict<Attribute> verdict = rules.of(parameter.getSymName());
      const std::string what = describeName(NameKind::Parameter, parameter.getSymName());
      if (failed(dist::emitIfError(&getContext(), verdict.contradiction(what, field, printValue)))) {
        return failure();
      }
      if (verdict.holds()) {
        parameter->setAttr(attribute, verdict.holds()->value);
      }
    }
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto settings = module->getAttrOfType<ArrayAttr>(dist::kSettingsAttr);
    if (!settings) {
      return;
    }
    llvm::MapVector<StringAttr, RuleSet<Attribute>> rules; // by attribute
    for (Attribute attribute : settings) {
      auto setting = dyn_cast<dist::SettingAttr>(attribute);
      if (!setting) {
        module.emitError() << dist::kSettingsAttr << " holds something other than settings: " << attribute;
        return signalPassFailure();
      }
      for (NamedAttribute value : setting.getValues()) {
        RuleScope scope{{NameKind::Parameter}, " that is trained"};
        rules.try_emplace(value.getName(), scope).first->second.add(dist::headOf(setting), value.getValue());
      }
    }
    auto trainable = llvm::make_filter_range(module.getOps<nn::VariableOp>(), [](nn::VariableOp op) { return op.getTrainable(); });
    SmallVector<nn::VariableOp> parameters(trainable);
    NameTable names;
    llvm::for_each(parameters, [&](nn::VariableOp parameter) { names.add(NameKind::Parameter, parameter.getSymName()); });
    for (const auto &[attribute, ofAttribute] : rules) {
      if (failed(apply(attribute, ofAttribute, parameters, names))) {
        return signalPassFailure();
      }
    }
    module->removeAttr(dist::kSettingsAttr);
  }
};

} // namespace

} // namespace ashlar::train
