// SPDX-License-Identifier: Apache-2.0
//
// Rules of the user: their matches, the winner of several for one thing, and the errors about them. Layouts, settings, stages,
// rematerialization, first values and frozen parameters are its clients: each lists its names and uses the winning values.

#ifndef ASHLAR_DIALECTS_SUPPORT_RULE_SET_H
#define ASHLAR_DIALECTS_SUPPORT_RULE_SET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace ashlar {

// The kinds of things that rules name.
enum class NameKind { Tensor, Op, Module, Parameter };

// Returns a name as errors quote it: op "layer0.up".
std::string describeName(NameKind kind, llvm::StringRef name);

// Returns the module that a glob names and a path is in: the shortest part of the path, up to a / or a dot, that the glob matches; the path
// itself when only the whole of it matches, and nothing when it does not. A glob that ends in /* names the module before that.
//   "layer*", "layer3.mlp.up"  ->  "layer3"       "layer3/*", "layer3/mlp/up"  ->  "layer3"
std::optional<llvm::StringRef> matchModule(llvm::StringRef glob, llvm::StringRef path);

// The names that rules may match, by kind, each once, in the order of adding. Assumes that the names outlive the table.
class NameTable {
public:
  void add(NameKind kind, llvm::StringRef name);

  // Adds the op of a path and the modules around it: "layer0.up" is an op in the module "layer0".
  void addPath(llvm::StringRef path);

  // Returns the names of a kind that a glob matches. A glob without wildcards is looked up: rules may be as many as names.
  llvm::SmallVector<llvm::StringRef> match(NameKind kind, llvm::StringRef glob) const;

  // Returns the names of these kinds, kind by kind.
  llvm::SmallVector<llvm::StringRef> list(llvm::ArrayRef<NameKind> kinds) const;

  // Returns the few names of these kinds that are nearest to a glob, quoted: "\"logits\", \"log\""; "" when there are none.
  std::string nearest(llvm::ArrayRef<NameKind> kinds, llvm::StringRef glob) const;

private:
  struct Names {
    std::vector<llvm::StringRef> list;
    llvm::DenseMap<llvm::StringRef, size_t> index;
  };
  static constexpr size_t kKinds = static_cast<size_t>(NameKind::Parameter) + 1;
  std::array<Names, kKinds> tables;
};

// A rule without its values: the names it matches, its rank and its name in errors.
struct RuleHead {
  std::string match;        // glob: * stands for any characters, ? for one
  int64_t priority = 0;     // the lowest holds
  std::string origin;       // "job.txtpb:14"; "" when unknown
  const char *key = "rule"; // the field of the job

  // Returns the rule as reports and other rules' errors name it: rule "fc1.weight" (job.txtpb:14).
  std::string describe() const;

  // Returns the start of an error about the rule: job.txtpb:14: rule "fc1.weight": .
  std::string lead() const;
};

// The names that rules are for. `qualifier` follows the kinds in errors: ", which recompute is for", " that is trained".
struct RuleScope {
  llvm::SmallVector<NameKind, 2> kinds;
  std::string qualifier = "";
};

// Returns the error about a rule that matches none of the names, with the nearest of them:
//   job.txtpb:14: rule "fc1.wieght": matches no tensor or op; nearest names: "fc1.weight", "fc2.weight"
std::string describeUnmatched(const RuleHead &rule, const RuleScope &scope, const NameTable &names);

// The rank of a rule for one thing. Of several rules the one with the least rank holds: by priority; a rule that names the thing before one
// that names a module around it; then the innermost module.
struct RuleRank {
  int64_t priority = 0;
  bool isOfModule = false;
  int64_t moduleSize = 0; // of the module's name, negative: the longest first

  std::tuple<int64_t, bool, int64_t> key() const { return {priority, isOfModule, moduleSize}; }
};

// A value that a rule gives to a thing.
template <typename Value> struct RuleStatement {
  const RuleHead *rule;
  Value value;
  RuleRank rank;
  llvm::StringRef module = ""; // that the rule names around the thing; "" where it names the thing
};

// Returns the error of two rules that hold for one thing and disagree: <rule>: <says> but <other> <otherSays>; <remedy>.
std::string describeContradiction(const RuleHead &rule, llvm::StringRef says, const RuleHead &other, llvm::StringRef otherSays,
                                  llvm::StringRef remedy);

// The statements of all rules about one thing. Invariant: `best` has the least rank so far, the first of equals; `rival` has the same rank
// and another value. So the result does not depend on the order of statements, and rules that a lower priority overrides may disagree.
template <typename Value> class RuleVerdict {
public:
  void add(RuleStatement<Value> statement) {
    if (!best || statement.rank.key() < best->rank.key()) {
      best = std::move(statement);
      rival.reset();
    } else if (!rival && statement.rank.key() == best->rank.key() && !(statement.value == best->value)) {
      rival = std::move(statement);
    }
  }

  // Returns the statement that holds; null without one.
  const RuleStatement<Value> *holds() const { return best ? &*best : nullptr; }

  // Returns the error of two rules of equal rank that disagree about `thing` (parameter "w"); "" when they agree.
  //   job.txtpb:7: rule "fc1.*": gives parameter "fc1.bias" the weight_decay 0.5 but rule "*.bias" (job.txtpb:6) gives it 0; make them ...
  std::string contradiction(llvm::StringRef thing, llvm::StringRef field, llvm::function_ref<std::string(const Value &)> print) const {
    if (!rival) {
      return "";
    }
    return describeContradiction(*rival->rule, "gives " + thing.str() + " the " + field.str() + " " + print(rival->value), *best->rule,
                                 "gives it " + print(best->value), "make them agree, or let the priority of one be lower");
  }

private:
  std::optional<RuleStatement<Value>> best, rival;
};

// The heads of a set of rules, found by name: those without wildcards by look-up.
class RuleIndex {
public:
  // The matches of a glob: names as a whole, or the paths of ops and the modules around them (matchModule).
  enum class Reach { Names, Modules };

  explicit RuleIndex(RuleScope scope, Reach reach = Reach::Names) : scope(std::move(scope)), reach(reach) {}

  bool empty() const { return heads.empty(); }
  size_t size() const { return heads.size(); }
  const RuleHead &operator[](size_t rule) const { return heads[rule]; }

  // Whether a rule matches a name.
  bool matches(llvm::StringRef name) const { return !matchesOf(name).empty(); }

  // Returns the error about the first rule that matches none of the names; "" when all match.
  std::string checkMatches(const NameTable &names) const;

protected:
  struct Match {
    size_t rule;
    llvm::StringRef part; // of the name: the module, or all of it
  };

  void addHead(RuleHead head);

  // Returns the rules that match a name, in the order of adding.
  llvm::SmallVector<Match> matchesOf(llvm::StringRef name) const;

private:
  RuleScope scope;
  Reach reach;
  std::vector<RuleHead> heads;
  llvm::StringMap<llvm::SmallVector<size_t, 1>> exact; // by glob, without wildcards
  std::vector<size_t> wild;
};

// Rules that each give a value to their matches. Finding the rules of a name is linear in the rules with wildcards.
template <typename Value> class RuleSet : public RuleIndex {
public:
  using RuleIndex::RuleIndex;

  void add(RuleHead head, Value value) {
    addHead(std::move(head));
    values.push_back(std::move(value));
  }

  const Value &valueOf(size_t rule) const { return values[rule]; }

  // Returns the values that the rules give to a name. The set outlives the verdict.
  RuleVerdict<Value> of(llvm::StringRef name) const {
    RuleVerdict<Value> verdict;
    for (const Match &match : matchesOf(name)) {
      const bool isOfModule = match.part.size() != name.size();
      const RuleHead &head = (*this)[match.rule];
      verdict.add({&head,
                   values[match.rule],
                   {head.priority, isOfModule, isOfModule ? -static_cast<int64_t>(match.part.size()) : 0},
                   isOfModule ? match.part : ""});
    }
    return verdict;
  }

  // Returns the value that holds for a name; nothing when no rule matches it.
  std::optional<Value> find(llvm::StringRef name) const {
    const RuleVerdict<Value> verdict = of(name);
    return verdict.holds() ? std::optional(verdict.holds()->value) : std::nullopt;
  }

private:
  llvm::SmallVector<Value, 0> values; // a std::vector<bool> has no references
};

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_RULE_SET_H
