// SPDX-License-Identifier: Apache-2.0
//
// The rules of the job about parameters, by name: first values (init), frozen, trained and untied ones. All are globs.

#ifndef ASHLAR_COMPILER_FRONTEND_PARAMETER_RULES_H
#define ASHLAR_COMPILER_FRONTEND_PARAMETER_RULES_H

#include "compiler/job/job.pb.h"
#include "dialects/support/rule_set.h"

#include <vector>

namespace ashlar::frontend {

struct ImportOptions;

class ParameterRules {
public:
  // Reads init, frozen, trained and untie of the options, which outlive the object.
  explicit ParameterRules(const ImportOptions &options);

  // Returns the first init rule that matches a parameter; null without one.
  const job::Init *initOf(llvm::StringRef name) const { return init.find(name).value_or(nullptr); }

  bool isFrozen(llvm::StringRef name) const { return frozen.matches(name); }
  bool isUntied(llvm::StringRef name) const { return untied.matches(name); }

  // Whether a float of the model is named in the job's trained. For a scalar, wildcards alone do not count: they are for tensors that are
  // parameters already.
  bool isTrained(llvm::StringRef name, bool isScalar) const { return (isScalar ? trainedScalars : trained).matches(name); }

  // Whether trained, init or frozen names a float; for a scalar as above.
  bool isNamed(llvm::StringRef name, bool isScalar) const;

  // Throw an ImportError when a rule matches none of the parameters; when one is to be trained and frozen.
  void checkInit(llvm::ArrayRef<std::string> parameters) const;
  void checkTrained(llvm::ArrayRef<std::string> parameters) const;
  void checkFrozen(const NameTable &parameters) const;
  // Assumes that `shared` are the parameters that several nodes read.
  void checkUntied(llvm::ArrayRef<std::string> shared) const;

private:
  RuleSet<const job::Init *> init;
  RuleSet<bool> frozen, trained, untied;
  RuleSet<bool> trainedScalars, namedScalars; // without globs of wildcards alone
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_PARAMETER_RULES_H
