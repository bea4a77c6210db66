// SPDX-License-Identifier: Apache-2.0
//
// Which names a rule matches, which of several rules holds, and every sentence about rules that do not fit.

#include "dialects/support/names.h"
#include "dialects/support/rule_set.h"

#include <catch2/catch.hpp>

#include <ctime>

namespace ashlar::test::rule_set_test {

using llvm::StringRef;

namespace {

using Set = RuleSet<int>;

RuleHead head(std::string match, int64_t priority = 0, std::string origin = "") {
  return {std::move(match), priority, std::move(origin)};
}

std::string moduleOf(StringRef glob, StringRef path) {
  std::optional<StringRef> module = matchModule(glob, path);
  return module ? module->str() : "none";
}

NameTable tableOf(NameKind kind, llvm::ArrayRef<StringRef> list) {
  NameTable names;
  for (StringRef name : list) {
    names.add(kind, name);
  }
  return names;
}

std::string print(const int &value) {
  return std::to_string(value);
}

std::string contradictionOf(const Set &set, StringRef name) {
  return set.of(name).contradiction(describeName(NameKind::Parameter, name), "fusion", print);
}

} // namespace

TEST_CASE("globs: * is any characters, ? is one", "[support]") {
  CHECK(matchesGlob("*", ""));
  CHECK(matchesGlob("layer?.*.bias", "layer1.fc.bias"));
  CHECK(matchesGlob("*b*c", "abbcbc"));
  CHECK(matchesGlob("a**", "a"));
  CHECK_FALSE(matchesGlob("layer?.*", "layer10.fc"));
  CHECK_FALSE(matchesGlob("", "a"));
  CHECK_FALSE(matchesGlob("?", ""));
  CHECK_FALSE(matchesGlob("*b*c", "abcb"));
  CHECK_FALSE(matchesGlob("a.c", "abc")); // a dot is a dot
}

TEST_CASE("globs: the distance to a name counts edits; wildcards are free", "[support]") {
  CHECK(globDistance("fc1.wieght", "fc1.weight") == 2);
  CHECK(globDistance("*.bais", "layer1.fc.bias") == 2);
  CHECK(globDistance("layers*", "layer0.mlp.up") == 1);
  CHECK(globDistance("fc?", "fc1") == 0);
  CHECK(globDistance("fc?", "fc") == 1);
  CHECK(globDistance("", "abc") == 3);
  CHECK(globDistance("abc", "") == 3);
  CHECK(globDistance("***", "abc") == 0);
  CHECK(globDistance("a*c", "xbc") == 1);
}

TEST_CASE("nearest names: three at most, by distance, then in alphabetical order", "[support]") {
  CHECK(nearestNames({"zeta", "fc2", "fc1", "fc10", "fc1"}, "fc3") == "\"fc1\", \"fc1\", \"fc2\"");
  CHECK(nearestNames({"a very long name that is far from all", "b"}, "a") == "\"b\", \"a very long name that is far from all\"");
  CHECK(nearestNames({"layer1.up", "head.down", "layer0.up"}, "layers*") == "\"layer0.up\", \"layer1.up\", \"head.down\"");
  CHECK(nearestNames({"aaaa", "aaab", "aaac", "*"}, "?") == "\"*\", \"aaaa\", \"aaab\"");
  CHECK(nearestNames({}, "a").empty());
}

TEST_CASE("nearest names: at most so many, within so many edits", "[support]") {
  using List = llvm::SmallVector<StringRef>;
  CHECK(findNearest({"rules", "rule", "rates"}, "rulse", 1, 2) == List{"rule"}); // one is removed, two are replaced
  CHECK(findNearest({"rules", "rule", "rates"}, "rulse", 2, 2) == List{"rule", "rules"});
  CHECK(findNearest({"optimizer", "mesh"}, "rulse", 1, 2).empty());
  CHECK(findNearest({"mesh"}, "mesh", 1, 0) == List{"mesh"});
}

TEST_CASE("name tables: names are of one kind, each once, in the order of adding", "[support]") {
  NameTable names;
  names.addPath("layer1.mlp.up");
  names.addPath("layer1.mlp.down");
  names.addPath("/head/out"); // the / at the start ends no module
  names.add(NameKind::Tensor, "layer1.mlp.up");
  using List = llvm::SmallVector<StringRef>;
  CHECK(names.match(NameKind::Module, "*") == List{"layer1", "layer1.mlp", "/head"});
  CHECK(names.match(NameKind::Op, "layer?.*") == List{"layer1.mlp.up", "layer1.mlp.down"});
  CHECK(names.match(NameKind::Op, "/head/out") == List{"/head/out"});
  CHECK(names.match(NameKind::Op, "layer1").empty());
  CHECK(names.match(NameKind::Tensor, "*") == List{"layer1.mlp.up"});
  CHECK(names.match(NameKind::Parameter, "*").empty());
  CHECK(names.match(NameKind::Op, "").empty());
}

TEST_CASE("modules: the shortest part of the path that the glob matches", "[support]") {
  CHECK(moduleOf("layer*", "layer3.mlp.up") == "layer3");
  CHECK(moduleOf("layer3/*", "layer3/mlp/up") == "layer3");
  CHECK(moduleOf("layer*/*", "layer3/mlp/up") == "layer3");
  CHECK(moduleOf("*.mlp", "layer3.mlp.up") == "layer3.mlp");
  CHECK(moduleOf("layer3.*", "layer3.mlp.up") == "layer3.mlp");
  CHECK(moduleOf("*", "layer3.mlp.up") == "layer3");
  CHECK(moduleOf("layer3.mlp.up", "layer3.mlp.up") == "layer3.mlp.up"); // the op itself
  CHECK(moduleOf("*.up", "layer3.mlp.up") == "layer3.mlp.up");
  CHECK(moduleOf("layer", "layer3.mlp.up") == "none");
  CHECK(moduleOf("layer1", "layer10.mlp.up") == "none");
  CHECK(moduleOf("layer1", "layer1") == "layer1");
  CHECK(moduleOf("/layer1", "/layer1/mlp/up") == "/layer1"); // the / at the start ends no module
  CHECK(moduleOf("*", "/layer1/mlp") == "/layer1");
  CHECK(moduleOf("*", "") == "");
}

TEST_CASE("rule sets: the lowest priority holds, whatever the order of the rules", "[support]") {
  Set set({{NameKind::Parameter}});
  set.add(head("*", 2), 1);
  set.add(head("fc1.*"), 2);
  set.add(head("fc1.bias", 1), 3);
  set.add(head("fc?.bias", -1), 4);
  CHECK(set.find("fc1.weight") == 2);
  CHECK(set.find("fc1.bias") == 4);
  CHECK(set.find("head") == 1);
  CHECK(set.matches("head"));
  CHECK(set.of("fc1.bias").holds()->rule->match == "fc?.bias");
  CHECK(contradictionOf(set, "fc1.bias").empty());
}

TEST_CASE("rule sets: of equal rules the first holds, and the others have to agree with it", "[support]") {
  Set set({{NameKind::Parameter}});
  set.add(head("*.bias", 0, "job:6"), 1);
  set.add(head("fc1.*", 0, "job:7"), 2);
  set.add(head("fc2.*"), 1);
  CHECK(set.find("fc1.bias") == 1);
  CHECK(contradictionOf(set, "fc2.bias").empty());
  CHECK(contradictionOf(set, "fc1.weight").empty());
  CHECK(contradictionOf(set, "fc1.bias") == "job:7: rule \"fc1.*\": gives parameter \"fc1.bias\" the fusion 2 but rule \"*.bias\" (job:6) "
                                            "gives it 1; make them agree, or let the priority of one be lower");
  set.add(head("fc1.bias", -1), 3); // settles it
  CHECK(set.find("fc1.bias") == 3);
  CHECK(contradictionOf(set, "fc1.bias").empty());
}

TEST_CASE("rule sets: a rule with wildcards and one without are equal", "[support]") {
  Set set({{NameKind::Parameter}});
  set.add(head("w*"), 1);
  set.add(head("w"), 2);
  CHECK(set.find("w") == 1); // the first, however it is found
  CHECK(contradictionOf(set, "w") ==
        "rule \"w\": gives parameter \"w\" the fusion 2 but rule \"w*\" gives it 1; make them agree, or let the priority of one be lower");
}

TEST_CASE("rule sets: of rules about modules the one that names the op holds, then the innermost module", "[support]") {
  Set set({{NameKind::Op, NameKind::Module}}, Set::Reach::Modules);
  set.add(head("layer0"), 1);
  set.add(head("layer0.mlp/*"), 2);
  set.add(head("*.up"), 3);
  set.add(head("layer1*", -1), 4);
  set.add(head("layer1.mlp.up"), 5);
  CHECK(set.find("layer0.norm") == 1);
  CHECK(set.of("layer0.norm").holds()->module == "layer0");
  CHECK(set.find("layer0.mlp.down") == 2);
  CHECK(set.of("layer0.mlp.down").holds()->module == "layer0.mlp");
  CHECK(set.find("layer0.mlp.up") == 3);
  CHECK(set.of("layer0.mlp.up").holds()->module == "");
  CHECK(set.find("layer1.mlp.up") == 4); // priority comes first
  CHECK_FALSE(set.find("layer2.norm").has_value());
  CHECK(set.of("layer0.mlp.up").contradiction("x", "y", print).empty()); // of other ranks
}

TEST_CASE("rule sets: a rule that matches nothing is reported with the nearest names", "[support]") {
  const NameTable names = tableOf(NameKind::Parameter, {"fc1.weight", "fc2.weight", "fc1.bias", "head"});
  Set set({{NameKind::Parameter}, " that is trained"});
  set.add(head("fc*"), 1);
  CHECK(set.checkMatches(names).empty());
  set.add(head("fc1.wieght", 0, "job.txtpb:14"), 2);
  CHECK(set.checkMatches(names) ==
        "job.txtpb:14: rule \"fc1.wieght\": matches no parameter that is trained; nearest names: \"fc1.weight\", "
        "\"fc2.weight\", \"fc1.bias\"");
}

TEST_CASE("rule sets: only names of the kinds that rules are for match, and are proposed", "[support]") {
  NameTable names = tableOf(NameKind::Tensor, {"w"});
  names.addPath("block.fc");
  Set ops({{NameKind::Op}, ", which `in` and `out` are for"});
  ops.add(head("w"), 1);
  CHECK(ops.checkMatches(names) == "rule \"w\": matches no op, which `in` and `out` are for; nearest names: \"block.fc\"");
  Set both({{NameKind::Tensor, NameKind::Op}});
  both.add(head("w"), 1);
  both.add(head("block.fc"), 1);
  CHECK(both.checkMatches(names).empty());
  both.add(head("block"), 1);
  CHECK(both.checkMatches(names) == "rule \"block\": matches no tensor or op; nearest names: \"block.fc\", \"w\"");
  Set modules({{NameKind::Op, NameKind::Module}}, Set::Reach::Modules);
  modules.add(head("block/*"), 1);
  CHECK(modules.checkMatches(names).empty());
  modules.add(head("blocks/*"), 1);
  CHECK(modules.checkMatches(names) == "rule \"blocks/*\": matches no op or module; nearest names: \"block\", \"block.fc\"");
}

TEST_CASE("rule sets: without rules nothing holds, without names nothing is proposed", "[support]") {
  Set set({{NameKind::Parameter}});
  CHECK(set.empty());
  CHECK_FALSE(set.matches(""));
  CHECK_FALSE(set.find("w").has_value());
  CHECK(set.of("w").holds() == nullptr);
  CHECK(contradictionOf(set, "w").empty());
  CHECK(set.checkMatches(NameTable()).empty());
  set.add({"w", 0, "", "frozen"}, 1);
  CHECK_FALSE(set.matches(""));
  CHECK(set.checkMatches(NameTable()) == "frozen \"w\": matches no parameter; the model has none");
}

// Quadratic look-ups would compare 4 * 10^9 pairs of names, which takes a minute.
TEST_CASE("rule sets: as many rules as names are found in linear time", "[support]") {
  constexpr size_t kNames = 64 * 1024;
  std::vector<std::string> list;
  for (size_t i = 0; i < kNames; ++i) {
    list.push_back("model.layer" + std::to_string(i) + ".weight");
  }
  const std::clock_t start = std::clock(); // of this process: others may be busy
  NameTable names;
  RuleSet<size_t> set({{NameKind::Parameter}}), modules({{NameKind::Op, NameKind::Module}}, RuleIndex::Reach::Modules);
  for (size_t i = 0; i < kNames; ++i) {
    names.add(NameKind::Parameter, list[i]);
    names.addPath(list[i]);
    set.add(head(list[i]), i);
    modules.add(head(StringRef(list[i]).drop_back(7).str()), i);
  }
  CHECK(set.checkMatches(names).empty());
  CHECK(modules.checkMatches(names).empty());
  bool isRight = true;
  for (size_t i = 0; i < kNames; ++i) {
    isRight &= set.find(list[i]) == i && modules.find(list[i]) == i;
  }
  CHECK(isRight);
  set.add(head("model.layer17.wieght"), 0);
  CHECK(set.checkMatches(names).find("nearest names: \"model.layer17.weight\"") != std::string::npos);
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 10);
}

} // namespace ashlar::test::rule_set_test
