// SPDX-License-Identifier: Apache-2.0
//
// Which of several rules holds. Which module a glob names: rule_set_test.cpp.

#include "dialects/dist/recompute_rules.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <catch2/catch.hpp>

namespace ashlar::test::recompute_rules_test {

using dist::RecomputeRules;

namespace {

// One rule: what it says is "recompute", "comm" or "gather", with a ! ahead where it forbids it.
struct Rule {
  std::string match, says;
  int64_t priority = 0;
};

class Rules {
public:
  explicit Rules(const std::vector<Rule> &list) {
    context.loadDialect<dist::DistDialect>();
    mlir::Builder b(&context);
    module = mlir::ModuleOp::create(b.getUnknownLoc());
    llvm::SmallVector<mlir::Attribute> settings;
    for (const Rule &rule : list) {
      llvm::StringRef says = rule.says;
      const bool value = !says.consume_front("!");
      llvm::StringRef name = says == "comm"     ? dist::kRecomputeCommAttr
                             : says == "gather" ? dist::kRecomputeParamGatherAttr
                                                : dist::kRecomputeAttr;
      settings.push_back(dist::SettingAttr::get(&context, b.getStringAttr(rule.match),
                                                b.getDictionaryAttr(b.getNamedAttr(name, b.getBoolAttr(value))), rule.priority,
                                                b.getStringAttr("job:" + std::to_string(settings.size() + 1))));
    }
    (*module)->setAttr(dist::kRecomputeRulesAttr, b.getArrayAttr(settings));
  }

  dist::RecomputeSetting of(llvm::StringRef path) { return RecomputeRules(*module).of(path); }

  // Returns the error for a model of these ops; "" for none.
  std::string check(llvm::ArrayRef<llvm::StringRef> paths) {
    std::string text;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) { text += diagnostic.str(); });
    const bool isGood = succeeded(RecomputeRules(*module).check(paths));
    CHECK(isGood == text.empty());
    return text;
  }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace

TEST_CASE("recompute rules: priority, then the op, then the innermost module", "[partition]") {
  Rules rules({{"layer*", "recompute", 1}, {"layer*.attention", "!recompute", 1}, {"*.softmax", "recompute", 1}, {"layer1", "!recompute"}});
  CHECK(rules.of("layer0.mlp.up").recompute == true);
  CHECK(rules.of("layer0.mlp.up").module == "layer0");
  CHECK(rules.of("layer0.attention.scores").recompute == false);
  CHECK(rules.of("layer0.attention.softmax").recompute == true);
  CHECK(rules.of("layer0.attention.softmax").module == "");
  CHECK(rules.of("layer1.attention.softmax").recompute == false);
  CHECK_FALSE(rules.of("head.up").recompute.has_value());
}

TEST_CASE("recompute rules: collectives and gathers are repeated unless a rule says no", "[partition]") {
  Rules rules({{"layer*", "recompute"}, {"layer1", "!comm"}, {"layer2", "!gather"}});
  CHECK(rules.of("layer0.up").comm);
  CHECK(rules.of("layer0.up").paramGather);
  CHECK_FALSE(rules.of("layer1.up").comm);
  CHECK(rules.of("layer1.up").paramGather);
  CHECK(rules.of("layer2.up").comm);
  CHECK_FALSE(rules.of("layer2.up").paramGather);
}

TEST_CASE("recompute rules: errors name the rule that matches none, and the two that contradict each other", "[partition]") {
  CHECK(Rules({{"layer*", "recompute"}}).check({"layer0.up", "head"}).empty());
  CHECK(Rules({{"block*", "recompute"}}).check({"layer0.up", "head"}) ==
        "job:1: rule \"block*\": matches no op or module, which recompute is for; nearest names: \"layer0\", \"layer0.up\", \"head\"");
  CHECK(Rules({{"layer*", "recompute"}, {"*0", "!recompute"}}).check({"layer0.up"}) ==
        "job:2: rule \"*0\": gives op \"layer0.up\" the recompute false but rule \"layer*\" (job:1) gives it true; make them agree, or "
        "let the priority of one be lower");
  CHECK(Rules({{"layer*", "recompute"}, {"*0", "!recompute", 1}}).check({"layer0.up"}).empty());
  CHECK(Rules({{"layer*", "comm"}, {"*0", "!recompute"}}).check({"layer0.up"}).empty()); // they say different things
  CHECK(Rules({{"layer*", "comm"}, {"*0", "!comm"}}).check({"layer0.up"}).find("the recompute_comm false but") != std::string::npos);
  CHECK(Rules({{"*", "gather"}, {"*0", "!gather"}}).check({"layer0.up"}).find("the recompute_param_gather false but") != std::string::npos);
}

} // namespace ashlar::test::recompute_rules_test
