// SPDX-License-Identifier: Apache-2.0
//
// Layouts as splits of factors.

#include "passes/layout/inference/factor_split.h"

#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

namespace ashlar::test::factor_split_test {

using namespace mlir;

namespace {

using namespace layout;

// Two dims of four factors: [ij, kl] with i=2, j=6, k=3, l=4.
struct TwoDims {
  ShardingRule rule;
  TensorFactors tensor{{0, 1}, {2, 3}};
  MeshAttr mesh = meshOf(context(), {{"x", 2}, {"y", 3}, {"z", 2}});

  TwoDims() {
    for (int64_t size : {2, 6, 3, 4}) {
      rule.addFactor(size);
    }
    rule.results = {tensor};
  }

  StringAttr axis(StringRef name) { return StringAttr::get(&context(), name); }
  FactorSplit projected(Layout layout) { return project(mesh, rule, tensor, layout); }
};

} // namespace

TEST_CASE_METHOD(TwoDims, "factor split: a dim fills its factors major first", "[factor_split]") {
  FactorSplit split = projected({{{axis("x"), axis("y")}, {}}, {}, {}});
  CHECK(split[0] == AxisList{axis("x")});
  CHECK(split[1] == AxisList{axis("y")});
  CHECK(unproject(tensor, split) == Layout{{{axis("x"), axis("y")}, {}}, {}, {}});
}

TEST_CASE_METHOD(TwoDims, "factor split: an axis that does not divide the factor is left out, and all after it", "[factor_split]") {
  FactorSplit split = projected({{{axis("y"), axis("x")}, {}}, {}, {}});
  CHECK(split[0].empty());
  CHECK(split[1].empty());
}

TEST_CASE_METHOD(TwoDims, "factor split: a minor factor needs its major ones split completely", "[factor_split]") {
  FactorSplit split(4);
  CHECK(!isSplittable(mesh, rule, tensor, split, 1, axis("y")));
  CHECK(isSplittable(mesh, rule, tensor, split, 0, axis("x")));
  split[0] = {axis("x")};
  CHECK(isSplittable(mesh, rule, tensor, split, 1, axis("y")));
  split[1] = {axis("y")};
  // Nothing is left of i, and z would have to go before y.
  CHECK(!isSplittable(mesh, rule, tensor, split, 0, axis("z")));
  CHECK(isSplittable(mesh, rule, tensor, split, 1, axis("z")));
  // 2 does not divide k = 3.
  CHECK(!isSplittable(mesh, rule, tensor, split, 2, axis("z")));
}

TEST_CASE_METHOD(TwoDims, "factor split: random layouts that fit the factors come back", "[factor_split]") {
  Dice dice(testSeed());
  int64_t fitting = 0;
  for (int64_t i = 0; i < 200; ++i) {
    Layout layout = randomLayout(dice, mesh, {12, 12});
    Layout back = unproject(tensor, projected(layout));
    for (auto [dim, all] : llvm::zip_equal(back.dims, layout.dims)) {
      CHECK(ArrayRef<StringAttr>(all).take_front(dim.size()) == ArrayRef<StringAttr>(dim)); // never more, never reordered
    }
    fitting += back == layout;
  }
  CHECK(fitting > 20);
}

TEST_CASE("factor split: results are partial over the axes of reduced factors only", "[factor_split]") {
  meshOf(context(), {{"x", 2}}); // loads the dialects
  auto axis = [](StringRef name) { return StringAttr::get(&context(), name); };
  ShardingRule rule;
  int64_t i = rule.addFactor(4), k = rule.addFactor(8, FactorKind::Reduction, Reduction::Max);
  rule.operands = {{{i}, {k}}};
  rule.results = {{{i}}};
  auto layouts = resultLayouts(rule, {{axis("x")}, {axis("y")}});
  REQUIRE(succeeded(layouts));
  CHECK(layouts->front() == Layout{{{axis("x")}}, {axis("y")}, Reduction::Max});

  // A sum and a maximum at once have no meaning.
  int64_t l = rule.addFactor(8, FactorKind::Reduction, Reduction::Sum);
  rule.operands.front().push_back({l});
  CHECK(failed(resultLayouts(rule, {{}, {axis("x")}, {axis("y")}})));
}

} // namespace ashlar::test::factor_split_test
