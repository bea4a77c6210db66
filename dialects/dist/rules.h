// SPDX-License-Identifier: Apache-2.0
//
// What all rules of the user have in common: how errors and reports name them, and which of several for one thing holds.

#ifndef ASHLAR_DIALECTS_DIST_RULES_H
#define ASHLAR_DIALECTS_DIST_RULES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"

#include <map>
#include <string>
#include <vector>

namespace ashlar::dist {

// Returns "rule "fc1.weight" (job.txtpb:14)". `origin` may be null.
std::string describeRule(mlir::StringAttr match, mlir::StringAttr origin);

// Opens an error with the place of a rule: job.txtpb:14: rule "fc1.weight": ... `origin` may be null.
mlir::InFlightDiagnostic emitRuleError(mlir::StringAttr match, mlir::StringAttr origin);

// What rules say of one thing each, in the order in which they first say something of it. Of two statements on one thing the one with the
// lower priority holds; equal ones have to agree. A Statement has getPriority() and text(), what it says.
template <typename Thing, typename Statement> class RuleTable {
public:
  // Adds a statement. Returns the one of the same priority that it contradicts, and then adds nothing; null when there is none.
  const Statement *add(const Thing &thing, Statement statement) {
    auto [found, inserted] = index.try_emplace(thing, list.size());
    if (inserted) {
      list.push_back(std::move(statement));
      return nullptr;
    }
    Statement &other = list[found->second];
    if (statement.getPriority() == other.getPriority()) {
      return statement.text() == other.text() ? nullptr : &other;
    }
    if (statement.getPriority() < other.getPriority()) {
      other = std::move(statement);
    }
    return nullptr;
  }

  const std::vector<Statement> &statements() const { return list; }

private:
  std::vector<Statement> list;
  std::map<Thing, size_t> index;
};

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_RULES_H
