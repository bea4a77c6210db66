// SPDX-License-Identifier: Apache-2.0
//
// See recompute_rules.h.

#include "dialects/dist/recompute_rules.h"

#include "dialects/dist/rules.h"
#include "dialects/support/names.h"

#include <tuple>

using namespace mlir;

namespace ashlar::dist {
namespace {

// Which of several statements holds, the least one: by priority; whether it is of a module, not of the op; how much of the path the module
// leaves open.
using Reach = std::tuple<int64_t, bool, int64_t>;

// What a rule says of an op.
struct Statement {
  Reach reach;
  bool value;
  llvm::StringRef module; // "" where the rule names the op
  SettingAttr rule;
};

std::optional<Statement> find(SettingAttr rule, llvm::StringRef name, llvm::StringRef path) {
  auto said = dyn_cast_if_present<BoolAttr>(rule.getValues().get(name));
  std::optional<llvm::StringRef> module = said ? RecomputeRules::moduleOf(rule.getMatch(), path) : std::nullopt;
  if (!module) {
    return std::nullopt;
  }
  const bool isOp = *module == path;
  Reach reach(rule.getPriority(), !isOp, -static_cast<int64_t>(module->size()));
  return Statement{reach, said.getValue(), isOp ? "" : *module, rule};
}

// Returns the statement that holds; `other`, when given, gets one that reaches as far and says something else.
std::optional<Statement> findBest(ArrayRef<SettingAttr> rules, llvm::StringRef name, llvm::StringRef path,
                                  std::optional<Statement> *other = nullptr) {
  std::optional<Statement> best;
  for (SettingAttr rule : rules) {
    std::optional<Statement> each = find(rule, name, path);
    if (each && (!best || each->reach < best->reach)) {
      best = each;
    }
  }
  for (SettingAttr rule : rules) {
    std::optional<Statement> each = other ? find(rule, name, path) : std::nullopt;
    if (each && each->reach == best->reach && each->value != best->value) {
      *other = each;
    }
  }
  return best;
}

llvm::StringRef textOf(bool value) {
  return value ? "true" : "false";
}

} // namespace

std::optional<llvm::StringRef> RecomputeRules::moduleOf(llvm::StringRef glob, llvm::StringRef path) {
  glob.consume_back("/*");
  for (size_t end = path.find_first_of("/.", 1); end != llvm::StringRef::npos; end = path.find_first_of("/.", end + 1)) {
    if (matchesGlob(glob, path.take_front(end))) {
      return path.take_front(end);
    }
  }
  return matchesGlob(glob, path) ? std::optional(path) : std::nullopt;
}

RecomputeRules::RecomputeRules(ModuleOp module) {
  if (auto settings = module->getAttrOfType<ArrayAttr>(kRecomputeRulesAttr)) {
    llvm::append_range(rules, settings.getAsRange<SettingAttr>());
  }
}

LogicalResult RecomputeRules::check(ArrayRef<llvm::StringRef> paths) const {
  for (SettingAttr rule : rules) {
    if (llvm::none_of(paths, [&](llvm::StringRef path) { return moduleOf(rule.getMatch(), path); })) {
      return emitRuleError(rule.getMatch(), rule.getOrigin())
             << "matches no op, which recompute is for; nearest names: " << nearestNames(paths, rule.getMatch());
    }
  }
  for (llvm::StringRef path : paths) {
    for (llvm::StringRef name : {kRecomputeAttr, kRecomputeCommAttr, kRecomputeParamGatherAttr}) {
      std::optional<Statement> other;
      std::optional<Statement> best = findBest(rules, name, path, &other);
      if (other) {
        return emitRuleError(other->rule.getMatch(), other->rule.getOrigin())
               << "says " << name << ": " << textOf(other->value) << " of op \"" << path << "\" but "
               << describeRule(best->rule.getMatch(), best->rule.getOrigin()) << " says " << textOf(best->value)
               << "; make them agree, or let the priority of one be lower";
      }
    }
  }
  return success();
}

RecomputeSetting RecomputeRules::of(llvm::StringRef path) const {
  std::optional<Statement> recompute = findBest(rules, kRecomputeAttr, path), comm = findBest(rules, kRecomputeCommAttr, path),
                           paramGather = findBest(rules, kRecomputeParamGatherAttr, path);
  RecomputeSetting setting;
  if (recompute) {
    setting.recompute = recompute->value;
    setting.module = recompute->module.str();
  }
  setting.comm = comm ? comm->value : true;
  setting.paramGather = paramGather ? paramGather->value : true;
  return setting;
}

} // namespace ashlar::dist
