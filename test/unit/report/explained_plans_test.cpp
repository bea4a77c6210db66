// SPDX-License-Identifier: Apache-2.0
//
// What --explain says is sent is what the program sends: for each reason of a redistribution, the steps of its plan are the collectives of
// the program that give this reason, kind by kind and axis by axis, in order. Collectives that became one have several reasons.

#include "compiler/report/layout_report.h"
#include "dialects/nn/programs.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

namespace ashlar::test::explained_plans_test {

using namespace mlir;

namespace {

using Texts = std::vector<std::string>;

// Returns the collectives of a plan: "slice dim 0 over x, all_to_all dim 0 to dim 1 over y" ==> {"all_to_all over y"}.
Texts collectivesOf(const report::PlanFact &plan) {
  Texts texts;
  for (StringRef step : llvm::split(plan.steps, ", ")) {
    StringRef kind = step.split(' ').first;
    if (!kind.empty() && kind != "slice") {
      texts.push_back((kind + " over " + step.rsplit(" over ").second).str());
    }
  }
  return texts;
}

// Returns the collectives of a program by the reasons that they give, and what each reason's plan says.
std::map<Texts, std::pair<Texts, Texts>> collectPlans(const report::LayoutReport &report) {
  std::map<Texts, std::pair<Texts, Texts>> plans;
  for (const report::CollectiveFact &fact : report.mains[0].collectives) {
    for (const report::ReasonFact &reason : fact.reasons) {
      Texts key = {reason.producer, reason.tensor, reason.from, reason.to};
      key.insert(key.end(), reason.consumers.begin(), reason.consumers.end());
      auto &[sent, planned] = plans[key];
      sent.push_back(fact.kind + " over " + llvm::join(fact.axes, "+"));
      planned = collectivesOf(reason.plan);
    }
  }
  return plans;
}

// Gives each op a name of its own, so that reasons can be told apart, and the program the role that reports ask for.
void nameOps(ModuleOp module) {
  int64_t number = 0;
  auto function = module.lookupSymbol<func::FuncOp>("f");
  for (Operation &op : function.front()) {
    op.setLoc(NameLoc::get(StringAttr::get(module.getContext(), "op" + std::to_string(number++))));
  }
  nn::setProgram(function, nn::ProgramRole::Run);
}

} // namespace

TEST_CASE("explain: the plans it prints are what the program sends", "[report][plans]") {
  const std::vector<std::pair<StringRef, int64_t>> meshes[] = {{{"x", 2}},
                                                               {{"x", 2}, {"y", 2}},
                                                               {{"x", 3}, {"y", 2}},
                                                               {{"x", 2}, {"y", 2}, {"z", 2}},
                                                               {{"x", 2}, {"y", 2}, {"z", 2}, {"v", 2}, {"w", 2}}};
  size_t compared = 0;
  std::set<std::string> kinds;
  for (uint64_t seed = testSeed(); seed < testSeed() + 300; ++seed) {
    CAPTURE(seed);
    OwningOpRef<ModuleOp> module = randomProgram(context(), seed, meshOf(context(), meshes[seed % 5]), /*numOps=*/20);
    nameOps(*module);
    REQUIRE(succeeded(partitionModule(*module)));
    for (const auto &[reason, plan] : collectPlans(report::makeLayoutReport(*module, "net"))) {
      INFO(llvm::join(reason, " | "));
      CHECK(plan.first == plan.second);
      ++compared;
      kinds.insert(plan.first.begin(), plan.first.end());
    }
  }
  CHECK(compared > 500);
  CHECK(kinds.size() > 20);
}

} // namespace ashlar::test::explained_plans_test
