// SPDX-License-Identifier: Apache-2.0
//
// Which sums may be delayed up to the variable in which micro-batches add them up.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "passes/layout/redistribute/decide.h"

#include "mlir/IR/BuiltinOps.h"

#include <catch2/catch.hpp>

namespace ashlar::test::delayed_sums_test {

using namespace mlir;

namespace {

// Returns the mnemonics of the ops of @f whose results are sums that may be delayed, in order.
std::string delayedIn(const std::string &body) {
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2]>
    nn.variable @sum : tensor<4xf64> {nn.scratch}
    func.func @f(%x: tensor<8x4xf64>) -> tensor<4xf64> {
      %old = nn.read @sum : tensor<4xf64>
      %s = nn.reduce sum %x dims = [0] : tensor<8x4xf64> -> tensor<4xf64>
    )" + body + "}");
  FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*module, dist::findMesh(*module).getMesh());
  REQUIRE(succeeded(problem));
  const llvm::BitVector delayed = layout::findDelayedSums(*problem);
  std::string found;
  for (const layout::ProblemOp &op : problem->ops) {
    if (op.results.size() == 1 && delayed[op.results.front()]) {
      found += (found.empty() ? "" : " ") + op.op->getName().stripDialect().str();
    }
  }
  return found;
}

} // namespace

TEST_CASE("delayed sums: what is only added to a variable is, with all that only leads there", "[layout]") {
  CHECK(delayedIn(R"(
    %n = nn.neg %s : tensor<4xf64>
    %new = nn.add %old, %n : tensor<4xf64>
    nn.write @sum, %new : tensor<4xf64>
    return %old : tensor<4xf64>
  )") == "reduce neg add");
}

TEST_CASE("delayed sums: nothing is that an op takes whole, nor what leads to it", "[layout]") {
  // The negated sum goes into the variable, and into a product.
  CHECK(delayedIn(R"(
    %n = nn.neg %s : tensor<4xf64>
    %square = nn.mul %n, %n : tensor<4xf64>
    %new = nn.add %old, %n : tensor<4xf64>
    nn.write @sum, %new : tensor<4xf64>
    return %square : tensor<4xf64>
  )") == "read add");
}

} // namespace ashlar::test::delayed_sums_test
