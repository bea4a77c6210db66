// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-apply-settings; see passes.td.

#include "passes/train/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/rules.h"
#include "dialects/nn/nn.h"
#include "dialects/support/names.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_APPLYSETTINGSPASS
#include "passes/train/passes.h.inc"

namespace {

// Returns a value as people write it: without the type of a number.
std::string printValue(Attribute value) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (auto number = dyn_cast<FloatAttr>(value)) {
    out << llvm::format("%.15g", number.getValueAsDouble());
  } else {
    value.print(out, /*elideType=*/true);
  }
  return text;
}

// One attribute that a setting gives to one parameter.
struct Given {
  nn::VariableOp parameter;
  NamedAttribute attribute;
  dist::SettingAttr setting;

  int64_t getPriority() const { return setting.getPriority(); }
  std::string text() const { return printValue(attribute.getValue()); }
};

struct ApplySettingsPass : public impl::ApplySettingsPassBase<ApplySettingsPass> {
  using ApplySettingsPassBase::ApplySettingsPassBase;

  // A parameter, by its place in the module, and the name of an attribute.
  using Table = dist::RuleTable<std::pair<size_t, std::string>, Given>;

  // Adds what a setting gives to each parameter that it matches.
  LogicalResult collect(dist::SettingAttr setting, ArrayRef<nn::VariableOp> parameters, Table &table) {
    bool matches = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      nn::VariableOp parameter = parameters[i];
      if (!matchesGlob(setting.getMatch(), parameter.getSymName())) {
        continue;
      }
      matches = true;
      for (NamedAttribute value : setting.getValues()) {
        Given given{parameter, value, setting};
        if (const Given *other = table.add({i, value.getName().str()}, given)) {
          return dist::emitRuleError(setting.getMatch(), setting.getOrigin())
                 << "gives parameter \"" << parameter.getSymName() << "\" the " << value.getName().strref().split('.').second << " "
                 << given.text() << " but " << dist::describeRule(other->setting.getMatch(), other->setting.getOrigin()) << " gives it "
                 << other->text() << "; make them agree, or let the priority of one be lower";
        }
      }
    }
    if (!matches) {
      auto names = llvm::map_to_vector(parameters, [](nn::VariableOp parameter) { return parameter.getSymName(); });
      return dist::emitRuleError(setting.getMatch(), setting.getOrigin())
             << "matches no parameter that is trained; nearest names: " << nearestNames(names, setting.getMatch());
    }
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto settings = module->getAttrOfType<ArrayAttr>(dist::kSettingsAttr);
    if (!settings) {
      return;
    }
    auto trainable = llvm::make_filter_range(module.getOps<nn::VariableOp>(), [](nn::VariableOp op) { return op.getTrainable(); });
    SmallVector<nn::VariableOp> parameters(trainable);
    Table table;
    for (Attribute attribute : settings) {
      auto setting = dyn_cast<dist::SettingAttr>(attribute);
      if (!setting) {
        module.emitError() << dist::kSettingsAttr << " holds something other than settings: " << attribute;
        return signalPassFailure();
      }
      if (failed(collect(setting, parameters, table))) {
        return signalPassFailure();
      }
    }
    for (const Given &given : table.statements()) {
      nn::VariableOp(given.parameter)->setAttr(given.attribute.getName(), given.attribute.getValue());
    }
    module->removeAttr(dist::kSettingsAttr);
  }
};

} // namespace

} // namespace ashlar::train
