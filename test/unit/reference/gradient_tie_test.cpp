// SPDX-License-Identifier: Apache-2.0
//
// Gradients where a function has none in the strict sense: at ties, kinks and poles the documentation of the op decides.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "passes/train/passes.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

namespace ashlar::test::gradient_tie_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

// Returns the gradients of sum(op(a, b)), with the variables a and b starting at the given values.
std::vector<Tensor> gradientsOf(const std::string &op, const std::string &resultType, const std::string &a, const std::string &b,
                                const std::string &type = "tensor<3xf64>") {
  OwningOpRef<ModuleOp> module =
      parse("nn.variable @a trainable : " + type + " = dense<" + a + "> : " + type + "\n nn.variable @b trainable : " + type + " = dense<" +
            b + "> : " + type +
            "\n func.func @train_step() -> tensor<f64> attributes {nn.program = #nn.program<train_step>} { %a = nn.read @a : " + type +
            "\n %b = nn.read @b : " + type + "\n %0 = " + op + "\n %r = nn.reduce sum %0 dims = [" +
            (resultType == "tensor<f64>" ? "" : "0") + "] : " + resultType + " -> tensor<f64>\n return %r : tensor<f64> }");
  {
    // Ops of one operand leave @b untrained; the warning about it is of no interest here.
    ScopedDiagnosticHandler handler(
        &context(), [](Diagnostic &diagnostic) { return success(diagnostic.getSeverity() == DiagnosticSeverity::Warning); });
    PassManager passes(&context());
    passes.addPass(train::createAutodiffPass());
    REQUIRE(succeeded(passes.run(*module)));
  }
  auto function = module->lookupSymbol<func::FuncOp>("train_step");
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<Value> values(2);
  for (auto gradient : function.getBody().front().getOps<nn::GradientOp>()) {
    values[gradient.getVariable() == "b"] = gradient;
  }
  llvm::erase_if(values, [](Value value) { return !value; });
  terminator->setOperands(values);
  function.setType(FunctionType::get(&context(), {}, terminator->getOperandTypes()));
  return run(*module, "train_step", {});
}

void check(const Tensor &actual, std::vector<double> expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(actual.getFloat(static_cast<int64_t>(i)) == expected[i]);
  }
}

constexpr const char *kVector = "tensor<3xf64>";

} // namespace

TEST_CASE("relu, leaky relu, abs and sign at zero", "[reference][gradient]") {
  check(gradientsOf("nn.relu %a : tensor<3xf64>", kVector, "[0.0, -1.0, 1.0]", "0.0")[0], {0, 0, 1});
  check(gradientsOf("nn.leaky_relu %a, 0.5 : tensor<3xf64>", kVector, "[0.0, -1.0, 1.0]", "0.0")[0], {0.5, 0.5, 1});
  check(gradientsOf("nn.abs %a : tensor<3xf64>", kVector, "[0.0, -1.0, 1.0]", "0.0")[0], {0, -1, 1});
  CHECK(gradientsOf("nn.sign %a : tensor<3xf64>", kVector, "[0.0, -1.0, 1.0]", "0.0").empty());
}

TEST_CASE("equal operands of max and min: the gradient goes to lhs", "[reference][gradient]") {
  for (const char *op : {"nn.max %a, %b : tensor<3xf64>", "nn.min %a, %b : tensor<3xf64>"}) {
    INFO(op);
    std::vector<Tensor> gradients = gradientsOf(op, kVector, "2.0", "2.0");
    check(gradients[0], {1, 1, 1});
    check(gradients[1], {0, 0, 0});
  }
}

TEST_CASE("equal extrema of a reduction share the gradient", "[reference][gradient]") {
  check(gradientsOf("nn.reduce max %a dims = [0] : tensor<3xf64> -> tensor<f64>", "tensor<f64>", "[4.0, 1.0, 4.0]", "0.0")[0],
        {0.5, 0, 0.5});
  check(gradientsOf("nn.reduce min %a dims = [0] : tensor<3xf64> -> tensor<f64>", "tensor<f64>", "[4.0, 1.0, 4.0]", "0.0")[0], {0, 1, 0});
}

// As PyTorch's max_pool1d(x, 3, 1, 1) does on the same numbers.
TEST_CASE("equal elements of a window: the gradient goes to the first", "[reference][gradient]") {
  const std::string kType = "tensor<16xf64>";
  check(gradientsOf("nn.max_pool %a dims = [0] [#nn.window<3, low = 1, high = 1>] : " + kType + " -> " + kType, kType,
                    "[1.0, 3.0, 3.0, 0.0, 3.0, 2.0, 1.0, 3.0, 0.0, 3.0, 3.0, 3.0, 1.0, 0.0, 3.0, 3.0]", "0.0", kType)[0],
        {0, 3, 1, 0, 2, 0, 0, 3, 0, 2, 1, 1, 0, 0, 3, 0});
  // Padding is no element, so -infinity is found in the tensor; a window of padding only has none.
  check(gradientsOf("nn.max_pool %a dims = [0] [#nn.window<2, stride = 2, low = 3>] : tensor<3xf64> -> tensor<3xf64>", kVector,
                    "[0xFFF0000000000000, 1.0, 1.0]", "0.0")[0],
        {1, 1, 0});
}

TEST_CASE("pow at zero has finite gradients", "[reference][gradient]") {
  std::vector<Tensor> gradients = gradientsOf("nn.pow %a, %b : tensor<3xf64>", kVector, "[0.0, 0.0, -2.0]", "[0.0, 2.0, 2.0]");
  check(gradients[0], {0, 0, -4});
  check(gradients[1], {0, 0, 0});
}

} // namespace ashlar::test::gradient_tie_test
