// SPDX-License-Identifier: Apache-2.0
//
// Matching by look-up where a glob has no wildcards, and the sentences of errors.

#include "dialects/support/rule_set.h"

#include "dialects/support/names.h"

#include "llvm/ADT/STLExtras.h"

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

namespace ashlar {

namespace {

const char *nounOf(NameKind kind) {
  switch (kind) {
  case NameKind::Tensor:
    return "tensor";
  case NameKind::Op:
    return "op";
  case NameKind::Module:
    return "module";
  case NameKind::Parameter:
    return "parameter";
  }
  llvm_unreachable("unknown kind of names");
}

bool hasWildcards(StringRef glob) {
  return glob.find_first_of("*?") != StringRef::npos;
}

// Returns the ends of the modules around an op, outermost first. A / at the start ends none.
SmallVector<size_t> moduleEnds(StringRef path) {
  SmallVector<size_t> ends;
  for (size_t end = path.find_first_of("/.", 1); end != StringRef::npos; end = path.find_first_of("/.", end + 1)) {
    ends.push_back(end);
  }
  return ends;
}

// Returns the glob over names of modules: without the /* that stands for all in one.
StringRef moduleGlob(StringRef glob) {
  glob.consume_back("/*");
  return glob;
}

} // namespace

std::string describeName(NameKind kind, StringRef name) {
  return (nounOf(kind) + (" \"" + name) + "\"").str();
}

std::optional<StringRef> matchModule(StringRef glob, StringRef path) {
  glob = moduleGlob(glob);
  for (size_t end : moduleEnds(path)) {
    if (matchesGlob(glob, path.take_front(end))) {
      return path.take_front(end);
    }
  }
  return matchesGlob(glob, path) ? std::optional(path) : std::nullopt;
}

void NameTable::add(NameKind kind, StringRef name) {
  Names &names = tables[static_cast<size_t>(kind)];
  if (names.index.try_emplace(name, names.list.size()).second) {
    names.list.push_back(name);
  }
}

void NameTable::addPath(StringRef path) {
  for (size_t end : moduleEnds(path)) {
    add(NameKind::Module, path.take_front(end));
  }
  add(NameKind::Op, path);
}

SmallVector<StringRef> NameTable::match(NameKind kind, StringRef glob) const {
  const Names &names = tables[static_cast<size_t>(kind)];
  if (!hasWildcards(glob)) {
    auto found = names.index.find(glob);
    return found == names.index.end() ? SmallVector<StringRef>() : SmallVector<StringRef>{names.list[found->second]};
  }
  SmallVector<StringRef> matched;
  llvm::copy_if(names.list, std::back_inserter(matched), [&](StringRef name) { return matchesGlob(glob, name); });
  return matched;
}

SmallVector<StringRef> NameTable::list(ArrayRef<NameKind> kinds) const {
  SmallVector<StringRef> names;
  for (NameKind kind : kinds) {
    llvm::append_range(names, tables[static_cast<size_t>(kind)].list);
  }
  return names;
}

std::string NameTable::nearest(ArrayRef<NameKind> kinds, StringRef glob) const {
  return nearestNames(list(kinds), glob);
}

std::string RuleHead::describe() const {
  return std::string(key) + " \"" + match + "\"" + (origin.empty() ? "" : " (" + origin + ")");
}

std::string RuleHead::lead() const {
  return (origin.empty() ? "" : origin + ": ") + key + " \"" + match + "\": ";
}

std::string describeUnmatched(const RuleHead &rule, const RuleScope &scope, const NameTable &names) {
  std::string text = rule.lead() + "matches no ";
  for (auto [i, kind] : llvm::enumerate(scope.kinds)) {
    text += (i == 0 ? "" : " or ") + std::string(nounOf(kind));
  }
  const std::string nearest = names.nearest(scope.kinds, rule.match);
  return text + scope.qualifier + (nearest.empty() ? "; the model has none" : "; nearest names: " + nearest);
}

std::string describeContradiction(const RuleHead &rule, StringRef says, const RuleHead &other, StringRef otherSays, StringRef remedy) {
  return (rule.lead() + says + " but " + other.describe() + " " + otherSays + "; " + remedy).str();
}

void RuleIndex::addHead(RuleHead head) {
  StringRef glob = reach == Reach::Modules ? moduleGlob(head.match) : StringRef(head.match);
  if (hasWildcards(glob)) {
    wild.push_back(heads.size());
  } else {
    exact[glob].push_back(heads.size());
  }
  heads.push_back(std::move(head));
}

SmallVector<RuleIndex::Match> RuleIndex::matchesOf(StringRef name) const {
  SmallVector<Match> matches;
  auto addExact = [&](StringRef part) {
    if (auto found = exact.find(part); found != exact.end()) {
      llvm::append_range(matches, llvm::map_range(found->second, [&](size_t rule) { return Match{rule, part}; }));
    }
  };
  if (reach == Reach::Modules) {
    for (size_t end : moduleEnds(name)) {
      addExact(name.take_front(end));
    }
  }
  addExact(name);
  for (size_t rule : wild) {
    if (reach == Reach::Modules) {
      if (std::optional<StringRef> module = matchModule(heads[rule].match, name)) {
        matches.push_back({rule, *module});
      }
    } else if (matchesGlob(heads[rule].match, name)) {
      matches.push_back({rule, name});
    }
  }
  llvm::sort(matches, [](const Match &a, const Match &b) { return a.rule < b.rule; });
  return matches;
}

std::string RuleIndex::checkMatches(const NameTable &names) const {
  for (const RuleHead &head : heads) {
    StringRef glob = reach == Reach::Modules ? moduleGlob(head.match) : StringRef(head.match);
    if (llvm::all_of(scope.kinds, [&](NameKind kind) { return names.match(kind, glob).empty(); })) {
      return describeUnmatched(head, scope, names);
    }
  }
  return "";
}

} // namespace ashlar
