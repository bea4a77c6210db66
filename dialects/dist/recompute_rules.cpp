// SPDX-License-Identifier: Apache-2.0
//
// See recompute_rules.h.

#include "dialects/dist/recompute_rules.h"

using namespace mlir;

namespace ashlar::dist {
namespace {

RuleSet<Attribute> readRecomputeRules(ModuleOp module, StringRef name) {
  return readRules(module, kRecomputeRulesAttr, name, {{NameKind::Op, NameKind::Module}, ", which " + name.str() + " is for"},
                   RuleIndex::Reach::Modules);
}

std::string print(const Attribute &value) {
  return cast<BoolAttr>(value).getValue() ? "true" : "false";
}

} // namespace

RecomputeRules::RecomputeRules(ModuleOp module)
    : context(module.getContext()), recompute(readRecomputeRules(module, kRecomputeAttr)),
      comm(readRecomputeRules(module, kRecomputeCommAttr)), paramGather(readRecomputeRules(module, kRecomputeParamGatherAttr)) {}

LogicalResult RecomputeRules::check(ArrayRef<StringRef> paths) const {
  NameTable names;
  llvm::for_each(paths, [&](StringRef path) { names.addPath(path); });
  for (auto [rules, name] :
       {std::pair(&recompute, kRecomputeAttr), std::pair(&comm, kRecomputeCommAttr), std::pair(&paramGather, kRecomputeParamGatherAttr)}) {
    if (failed(emitIfError(context, rules->checkMatches(names)))) {
      return failure();
    }
    for (StringRef path : paths) {
      if (failed(emitIfError(context, rules->of(path).contradiction(describeName(NameKind::Op, path), name, print)))) {
        return failure();
      }
    }
  }
  return success();
}

RecomputeSetting RecomputeRules::of(StringRef path) const {
  RecomputeSetting setting;
  const RuleVerdict<Attribute> verdict = recompute.of(path);
  if (const RuleStatement<Attribute> *statement = verdict.holds()) {
    setting.recompute = cast<BoolAttr>(statement->value).getValue();
    setting.module = statement->module.str();
  }
  auto allows = [&](const RuleSet<Attribute> &rules) {
    std::optional<Attribute> value = rules.find(path);
    return !value || cast<BoolAttr>(*value).getValue();
  };
  setting.comm = allows(comm);
  setting.paramGather = allows(paramGather);
  return setting;
}

} // namespace ashlar::dist
