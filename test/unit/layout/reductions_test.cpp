// SPDX-License-Identifier: Apache-2.0
//
// Sums that are delayed, shared or scattered are the sums of one device: programs before and after partitioning, run by the interpreter.

#include "compiler/reference/equivalence.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include <catch2/catch.hpp>

namespace ashlar::test::reductions_test {

using namespace mlir;

namespace {

// Sums of some ten f64 of the order of 1, in another order.
constexpr double kTolerance = 1e-13;

// Partitions a module with @f, checks that it computes the same, and returns its collectives: "all_reduce reduce_scatter".
std::string collectivesOf(const std::string &text) {
  OwningOpRef<ModuleOp> module = parse(text);
  OwningOpRef<ModuleOp> after = module->clone();
  REQUIRE(succeeded(partitionModule(*after)));
  reference::EquivalenceOptions options;
  options.functions = {"f"};
  options.ranksAfter = dist::findMesh(*module).getMesh().numDevices();
  FailureOr<double> difference = reference::compareModules(*module, *after, options);
  REQUIRE(succeeded(difference));
  CHECK(*difference <= kTolerance);
  std::string kinds;
  after->walk(
      [&](dist::CollectiveOpInterface op) { kinds += (kinds.empty() ? "" : " ") + stringifyCollectiveKind(op.getCollectiveKind()).str(); });
  return kinds;
}

// A function of x and y, split on rows, and s, whole, that returns one tensor.
std::string function(const std::string &body, const std::string &type, const std::string &layout) {
  return R"(
    dist.mesh @mesh <["dp" = 2, "tp" = 2]>
    func.func @f(%x: tensor<8x12x4xf64> {dist.layout = #dist.layout<[{"dp"}, {}, {}]>},
                 %y: tensor<8x12x4xf64> {dist.layout = #dist.layout<[{"dp"}, {}, {}]>},
                 %s: tensor<12x4xf64> {dist.layout = #dist.layout<[{}, {}]>}) -> (tensor<)" +
         type + "> {dist.layout = #dist.layout<" + layout + R"(>}) {
      %a = nn.reduce sum %x dims = [0] : tensor<8x12x4xf64> -> tensor<12x4xf64>
      %b = nn.reduce sum %y dims = [0] : tensor<8x12x4xf64> -> tensor<12x4xf64>
    )" + body +
         "return %r : tensor<" + type + "> }";
}

} // namespace

TEST_CASE("delayed reductions: terms are scaled, divided, negated, subtracted and added before one sum", "[reductions]") {
  std::string body = R"(
      %c = nn.mul %s, %b : tensor<12x4xf64>
      %d = nn.neg %c : tensor<12x4xf64>
      %e = nn.div %a, %s : tensor<12x4xf64>
      %g = nn.sub %e, %d : tensor<12x4xf64>
      %r = nn.add %g, %g : tensor<12x4xf64>
  )";
  CHECK(collectivesOf(function(body, "12x4xf64", "[{}, {}]")) == "all_reduce");
}

TEST_CASE("delayed reductions: terms are reshaped, transposed, sliced and summed further before one sum", "[reductions]") {
  std::string body = R"(
      %c = nn.transpose %b [1, 0] : tensor<12x4xf64> -> tensor<4x12xf64>
      %d = nn.reshape %a : tensor<12x4xf64> -> tensor<4x12xf64>
      %e = nn.add %c, %d : tensor<4x12xf64>
      %g = nn.slice %e [0, 2] to [4, 10] by [1, 2] : tensor<4x12xf64> -> tensor<4x4xf64>
      %r = nn.reduce sum %g dims = [1] : tensor<4x4xf64> -> tensor<4xf64>
  )";
  CHECK(collectivesOf(function(body, "4xf64", "[{}]")) == "all_reduce");
}

TEST_CASE("delayed reductions: a dim that another axis splits is summed with the terms", "[reductions]") {
  std::string text = R"(
    dist.mesh @mesh <["dp" = 2, "tp" = 2]>
    func.func @f(%x: tensor<8x12xf64> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) -> (tensor<f64> {dist.layout = #dist.layout<[]>}) {
      %a = nn.reduce sum %x dims = [0] : tensor<8x12xf64> -> tensor<12xf64>
      %n = nn.neg %a : tensor<12xf64>
      %r = nn.reduce sum %n dims = [0] : tensor<12xf64> -> tensor<f64>
      return %r : tensor<f64>
    })";
  CHECK(collectivesOf(text) == "all_reduce");
}

TEST_CASE("delayed reductions: products of sums are no sums of products", "[reductions]") {
  CHECK(collectivesOf(function("%r = nn.mul %a, %b : tensor<12x4xf64>", "12x4xf64", "[{}, {}]")) == "all_reduce all_reduce");
}

TEST_CASE("shared reductions: a sum that is wanted whole and in pieces is made once", "[reductions]") {
  std::string text = R"(
    dist.mesh @mesh <["dp" = 2, "tp" = 2]>
    func.func @f(%x: tensor<8x12xf64> {dist.layout = #dist.layout<[{"dp"}, {}]>})
        -> (tensor<12xf64> {dist.layout = #dist.layout<[{}]>}, tensor<12xf64> {dist.layout = #dist.layout<[{"dp"}]>},
            tensor<12xf64> {dist.layout = #dist.layout<[{"tp"}]>}) {
      %a = nn.reduce sum %x dims = [0] : tensor<8x12xf64> -> tensor<12xf64>
      return %a, %a, %a : tensor<12xf64>, tensor<12xf64>, tensor<12xf64>
    })";
  CHECK(collectivesOf(text) == "all_reduce");
}

TEST_CASE("shared reductions: a sum that is wanted in pieces only is scattered", "[reductions]") {
  CHECK(collectivesOf(function("%r = nn.add %a, %b : tensor<12x4xf64>", "12x4xf64", R"([{"dp"}, {}])")) == "reduce_scatter");
}

} // namespace ashlar::test::reductions_test
