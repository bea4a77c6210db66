// SPDX-License-Identifier: Apache-2.0
//
// See parameter_rules.h.

#include "compiler/frontend/parameter_rules.h"

#include "compiler/frontend/import.h"
#include "compiler/frontend/import_error.h"

using llvm::ArrayRef;
using llvm::StringRef;

namespace ashlar::frontend {

namespace {

bool isWildcards(StringRef glob) {
  return glob.find_first_not_of("*?") == StringRef::npos;
}

NameTable tableOf(ArrayRef<std::string> parameters) {
  NameTable names;
  for (const std::string &name : parameters) {
    names.add(NameKind::Parameter, name);
  }
  return names;
}

void throwIfError(const std::string &error) {
  if (!error.empty()) {
    throw ImportError(error);
  }
}

} // namespace

ParameterRules::ParameterRules(const ImportOptions &options)
    : init({{NameKind::Parameter}}), frozen({{NameKind::Parameter}}), trained({{NameKind::Parameter}}),
      untied({{NameKind::Parameter}, " that several nodes read"}), trainedScalars({{NameKind::Parameter}}),
      namedScalars({{NameKind::Parameter}}) {
  auto addGlobs = [](RuleSet<bool> &rules, ArrayRef<std::string> globs, const char *key, bool isScalar) {
    for (const std::string &glob : globs) {
      if (!isScalar || !isWildcards(glob)) {
        rules.add({glob, /*priority=*/0, /*origin=*/"", key}, true);
      }
    }
  };
  addGlobs(frozen, options.frozen, "frozen", /*isScalar=*/false);
  addGlobs(trained, options.trained, "trained", /*isScalar=*/false);
  addGlobs(untied, options.untie, "untie", /*isScalar=*/false);
  addGlobs(trainedScalars, options.trained, "trained", /*isScalar=*/true);
  addGlobs(namedScalars, options.trained, "trained", /*isScalar=*/true);
  addGlobs(namedScalars, options.frozen, "frozen", /*isScalar=*/true);
  for (const job::Init &rule : options.init) {
    init.add({rule.match(), /*priority=*/static_cast<int64_t>(init.size()), /*origin=*/"", "init rule"}, &rule); // the first holds
    addGlobs(namedScalars, rule.match(), "init rule", /*isScalar=*/true);
  }
}

bool ParameterRules::isNamed(StringRef name, bool isScalar) const {
  return isScalar ? namedScalars.matches(name) : trained.matches(name) || frozen.matches(name) || init.matches(name);
}

void ParameterRules::checkInit(ArrayRef<std::string> parameters) const {
  throwIfError(init.checkMatches(tableOf(parameters)));
}

void ParameterRules::checkTrained(ArrayRef<std::string> parameters) const {
  throwIfError(trained.checkMatches(tableOf(parameters)));
  for (const std::string &name : parameters) {
    const RuleVerdict<bool> train = trained.of(name), freeze = frozen.of(name);
    if (train.holds() && freeze.holds()) {
      throw ImportError(describeContradiction(*train.holds()->rule, "trains " + describeName(NameKind::Parameter, name),
                                              *freeze.holds()->rule, "freezes it", "leave out one of the two in the job"));
    }
  }
}

void ParameterRules::checkFrozen(const NameTable &parameters) const {
  throwIfError(frozen.checkMatches(parameters));
}

void ParameterRules::checkUntied(ArrayRef<std::string> shared) const {
  throwIfError(untied.checkMatches(tableOf(shared)));
}

} // namespace ashlar::frontend
