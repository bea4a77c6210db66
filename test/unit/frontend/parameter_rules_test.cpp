// SPDX-License-Identifier: Apache-2.0
//
// The job's rules about parameters: which of several holds, what names a scalar, and the errors.

#include "compiler/frontend/import.h"
#include "compiler/frontend/import_error.h"
#include "compiler/frontend/parameter_rules.h"

#include <catch2/catch.hpp>

#include <functional>

namespace ashlar::test::parameter_rules_test {

using namespace ashlar::frontend;

namespace {

job::Init fill(std::string match, float value) {
  job::Init rule;
  rule.set_match(std::move(match));
  rule.set_fill(value);
  return rule;
}

std::string errorOf(const std::function<void()> &check) {
  try {
    check();
  } catch (const ImportError &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("parameter rules: the first init rule that matches holds, with or without wildcards", "[frontend]") {
  ImportOptions options;
  options.init = {fill("fc1.*", 1), fill("fc1.bias", 2), fill("*.bias", 3)};
  const ParameterRules rules(options);
  CHECK(rules.initOf("fc1.bias")->fill() == 1);
  CHECK(rules.initOf("fc2.bias")->fill() == 3);
  CHECK(rules.initOf("fc2.weight") == nullptr);
  CHECK(errorOf([&] { rules.checkInit({"fc1.bias"}); }).empty()); // a rule that never holds matches nonetheless
  CHECK(errorOf([&] { rules.checkInit({"fc2.bias"}); }) == "init rule \"fc1.*\": matches no parameter; nearest names: \"fc2.bias\"");
}

TEST_CASE("parameter rules: wildcards alone name no scalar", "[frontend]") {
  ImportOptions options;
  options.trained = {"*", "logit_scale"};
  options.frozen = {"??"};
  options.init = {fill("***", 0), fill("a*", 0)};
  const ParameterRules rules(options);
  CHECK(rules.isTrained("epsilon", /*isScalar=*/false));
  CHECK_FALSE(rules.isTrained("epsilon", /*isScalar=*/true));
  CHECK(rules.isTrained("logit_scale", /*isScalar=*/true));
  CHECK(rules.isNamed("xy", /*isScalar=*/false));
  CHECK_FALSE(rules.isNamed("xy", /*isScalar=*/true));
  CHECK(rules.isNamed("alpha", /*isScalar=*/true)); // by an init rule
  CHECK(rules.isFrozen("xy"));
  CHECK_FALSE(rules.isFrozen("alpha"));
}

TEST_CASE("parameter rules: what is trained is not frozen", "[frontend]") {
  ImportOptions options;
  options.trained = {"mask*"};
  options.frozen = {"*.bias", "m*_a"};
  const ParameterRules rules(options);
  CHECK(errorOf([&] { rules.checkTrained({"mask_b", "fc.bias"}); }).empty());
  CHECK(errorOf([&] { rules.checkTrained({"mask_b", "mask_a"}); }) ==
        "trained \"mask*\": trains parameter \"mask_a\" but frozen \"m*_a\" freezes it; leave out one of the two in the job");
  CHECK(errorOf([&] { rules.checkTrained({"fc.bias"}); }) == "trained \"mask*\": matches no parameter; nearest names: \"fc.bias\"");
  CHECK(errorOf([&] { rules.checkFrozen(NameTable()); }) == "frozen \"*.bias\": matches no parameter; the model has none");
}

TEST_CASE("parameter rules: only parameters that several nodes read are untied", "[frontend]") {
  ImportOptions options;
  options.untie = {"a.*"};
  const ParameterRules rules(options);
  CHECK(rules.isUntied("a.weight"));
  CHECK_FALSE(rules.isUntied("b.weight"));
  CHECK(errorOf([&] { rules.checkUntied({"a.weight"}); }).empty());
  CHECK(errorOf([&] { rules.checkUntied({"b.weight"}); }) ==
        "untie \"a.*\": matches no parameter that several nodes read; nearest names: \"b.weight\"");
}

} // namespace ashlar::test::parameter_rules_test
