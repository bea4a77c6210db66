// SPDX-License-Identifier: Apache-2.0
//
// Activations, normalizations and variadic ops of ONNX against expectations made by hand.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>

namespace ashlar::test::activation_test {

using onnx::TensorProto;

namespace {

OnnxModel unary(const std::string &op, std::vector<Attribute> attributes = {}, int64_t opset = 20) {
  return OnnxModel(opset).input("x", {5}).node(op, {"x"}, {"y"}, std::move(attributes)).output("y");
}

double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

double hardSigmoid(double x, double alpha, double beta) {
  return std::max(0.0, std::min(1.0, alpha * x + beta));
}

// x (2, 3) and parameters of shape (3) -> results.
std::vector<ashlar::reference::Tensor> normalize(const std::string &op, std::vector<Attribute> attributes, bool bias, size_t numResults) {
  OnnxModel model = OnnxModel(op == "LayerNormalization" ? 17 : 23).input("x", {2, 3}).input("scale", {3});
  std::vector<std::string> inputs = {"x", "scale"}, outputs = {"y", "mean", "inverse"};
  outputs.resize(numResults);
  if (bias) {
    inputs.push_back("bias");
    model.initializer("bias", TensorProto::FLOAT, {3}, {10, 20, 30});
  }
  model.node(op, inputs, outputs, std::move(attributes));
  for (const std::string &output : outputs) {
    model.output(output);
  }
  return evaluate(model, {f32({2, 3}, {1, 2, 3, -2, 0, 5}), f32({3}, {1, 2, 3})});
}

} // namespace

// Each computes its function, far out too.
TEST_CASE("onnx activations", "[frontend]") {
  struct Row {
    const char *op;
    std::function<double(double)> function;
    std::vector<Attribute> attributes;
  };
  std::vector<Row> rows = {
      {"Celu", [](double x) { return std::max(x, 0.0) + std::min(0.0, 2 * std::expm1(x / 2)); }, {{"alpha", 2.0f}}},
      {"Elu", [](double x) { return x > 0 ? x : std::expm1(x); }, {}},
      {"Elu", [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); }, {{"alpha", 0.5f}}},
      {"HardSigmoid", [](double x) { return hardSigmoid(x, 0.2, 0.5); }, {}},
      {"HardSigmoid", [](double x) { return hardSigmoid(x, 0.5, 0.25); }, {{"alpha", 0.5f}, {"beta", 0.25f}}},
      {"HardSwish", [](double x) { return x * hardSigmoid(x, 1.0 / 6, 0.5); }, {}},
      {"Mish", [](double x) { return x * std::tanh(softplus(x)); }, {}},
      {"Reciprocal", [](double x) { return 1 / x; }, {}},
      {"Selu", [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }, {}},
      {"Sign", [](double x) { return x > 0   ? 1
                                     : x < 0 ? -1
                                             : 0; }, {}},
      {"Softplus", softplus, {}},
      {"Softsign", [](double x) { return x / (1 + std::abs(x)); }, {}},
      {"Swish", [](double x) { return x / (1 + std::exp(-1.5 * x)); }, {{"alpha", 1.5f}}},
      {"ThresholdedRelu", [](double x) { return x > 1 ? x : 0; }, {}},
      {"ThresholdedRelu", [](double x) { return x > 0.25 ? x : 0; }, {{"alpha", 0.25f}}},
  };
  for (const Row &row : rows) {
    INFO(row.op);
    std::vector<double> inputs = {-200, -1.5, 0.5, 2, 200}, expected;
    for (double x : inputs) {
      expected.push_back(row.function(x));
    }
    CHECK(holds(evaluate(unary(row.op, row.attributes), {f32({5}, inputs)})[0], {5}, expected));
  }
  OnnxModel prelu = OnnxModel(17).input("x", {2, 2}).initializer("slope", TensorProto::FLOAT, {2}, {0.5, 2});
  prelu.node("PRelu", {"x", "slope"}, {"y"}).output("y");
  CHECK(holds(evaluate(prelu, {f32({2, 2}, {-1, -1, 3, 4})})[0], {2, 2}, {-0.5, -2, 3, 4}));
  OnnxModel wide = OnnxModel(17).input("x", {2}).input("s", {2, 2}).node("PRelu", {"x", "s"}, {"y"}).output("y");
  CHECK_THAT(importError(wide), contains("slope of tensor<2x2xf32> does not fit tensor<2xf32>"));
}

// The bounds are attributes up to opset 10, inputs from 11 on; either may be missing.
TEST_CASE("onnx Clip", "[frontend]") {
  auto x = [] { return f32({5}, {-3, -1, 0, 1, 3}); };
  CHECK(holds(evaluate(unary("Clip", {{"min", -1.0f}, {"max", 2.0f}}, 10), {x()})[0], {5}, {-1, -1, 0, 1, 2}));
  CHECK(holds(evaluate(unary("Clip", {{"max", 0.5f}}, 7), {x()})[0], {5}, {-3, -1, 0, 0.5, 0.5}));
  CHECK(holds(evaluate(unary("Clip", {}, 10), {x()})[0], {5}, {-3, -1, 0, 1, 3}));
  auto model = [](std::vector<std::string> inputs) {
    OnnxModel clip = OnnxModel(13).input("x", {5}).initializer("low", TensorProto::FLOAT, {}, {-1});
    return clip.input("high", {}).node("Clip", std::move(inputs), {"y"}).output("y");
  };
  CHECK(holds(evaluate(model({"x", "low", "high"}), {x(), f32({}, {2})})[0], {5}, {-1, -1, 0, 1, 2}));
  CHECK(holds(evaluate(model({"x", "", "high"}), {x(), f32({}, {0})})[0], {5}, {-3, -1, 0, 0, 0}));
  CHECK(holds(evaluate(model({"x", "low"}), {x(), f32({}, {0})})[0], {5}, {-1, -1, 0, 1, 3}));
  OnnxModel vector = OnnxModel(13).input("x", {5}).input("low", {5}).node("Clip", {"x", "low"}, {"y"}).output("y");
  CHECK_THAT(importError(vector), contains("bound tensor<5xf32> is no scalar of the element type of tensor<5xf32>"));
}

TEST_CASE("onnx LayerNormalization", "[frontend]") {
  // Rows 1 2 3 (mean 2, variance 2/3) and -2 0 5 (mean 1, variance 26/3).
  double a = 1 / std::sqrt(2.0 / 3 + 1e-5), b = 1 / std::sqrt(26.0 / 3 + 1e-5);
  auto results = normalize("LayerNormalization", {}, /*bias=*/true, /*numResults=*/3);
  CHECK(holds(results[0], {2, 3}, {10 - a, 20, 30 + 3 * a, 10 - 3 * b, 20 - 2 * b, 30 + 12 * b}));
  CHECK(holds(results[1], {2, 1}, {2, 1}));
  CHECK(holds(results[2], {2, 1}, {a, b}));
  // Both dims together: mean 1.5, variance 43/6 - 9/4.
  double c = 1 / std::sqrt(43.0 / 6 - 2.25 + 0.5);
  auto all = normalize("LayerNormalization", {{"axis", int64_t(0)}, {"epsilon", 0.5f}}, /*bias=*/false, /*numResults=*/1);
  CHECK(holds(all[0], {2, 3}, {-0.5 * c, c, 4.5 * c, -3.5 * c, -3 * c, 10.5 * c}));
  OnnxModel wrong = OnnxModel(17).input("x", {2, 3}).input("s", {2}).node("LayerNormalization", {"x", "s"}, {"y"}).output("y");
  CHECK_THAT(importError(wrong), contains("shapes [2] and [2, 3] do not broadcast"));
  OnnxModel wide = OnnxModel(17).input("x", {2, 3}).input("s", {4, 2, 3}).node("LayerNormalization", {"x", "s"}, {"y"}).output("y");
  CHECK_THAT(importError(wide), contains("input 1 of tensor<4x2x3xf32> does not fit tensor<2x3xf32>"));
  OnnxModel stash = OnnxModel(17).input("x", {2, 3}).input("s", {3});
  stash.node("LayerNormalization", {"x", "s"}, {"y"}, {{"stash_type", int64_t(16)}}).output("y");
  CHECK_THAT(importError(stash), contains("attribute \"stash_type\" 16 is not supported; use 1, float"));
  OnnxModel integers = OnnxModel(17).input("x", {2, 3}, TensorProto::INT32).input("s", {3});
  CHECK_THAT(importError(integers.node("LayerNormalization", {"x", "s"}, {"y"}).output("y")),
             contains("input 0 is a tensor of i32, which the op does not take; its inputs are floats"));
}

TEST_CASE("onnx RMSNormalization", "[frontend]") {
  // Mean squares 14/3 and 29/3.
  double a = 1 / std::sqrt(14.0 / 3 + 1e-5), b = 1 / std::sqrt(29.0 / 3 + 1e-5);
  CHECK(holds(normalize("RMSNormalization", {}, /*bias=*/false, /*numResults=*/1)[0], {2, 3}, {a, 4 * a, 9 * a, -2 * b, 0, 15 * b}));
}

TEST_CASE("onnx variadic ops", "[frontend]") {
  auto run = [](const std::string &op, std::vector<std::string> inputs) {
    OnnxModel model = OnnxModel(17).input("a", {2}).input("b", {2, 1}).input("c", {});
    return evaluate(model.node(op, std::move(inputs), {"y"}).output("y"), {f32({2}, {1, 5}), f32({2, 1}, {2, 4}), f32({}, {3})})[0];
  };
  CHECK(holds(run("Max", {"a", "b", "c"}), {2, 2}, {3, 5, 4, 5}));
  CHECK(holds(run("Min", {"a", "b", "c"}), {2, 2}, {1, 2, 1, 3}));
  CHECK(holds(run("Sum", {"a", "b", "c"}), {2, 2}, {6, 10, 8, 12}));
  CHECK(holds(run("Mean", {"a", "b", "c"}), {2, 2}, {2, 10.0 / 3, 8.0 / 3, 4}));
  CHECK(holds(run("Max", {"a"}), {2}, {1, 5}));
  CHECK(holds(run("Mean", {"a"}), {2}, {1, 5}));
}

// By numpy.isinf, and by ONNX's formula of Shrink.
TEST_CASE("onnx IsInf and Shrink", "[frontend]") {
  auto isInf = [](std::vector<Attribute> attributes, int64_t opset = 20) {
    return evaluate(unary("IsInf", std::move(attributes), opset), {f32({5}, {1, NAN, INFINITY, 0, -INFINITY})})[0];
  };
  CHECK(holds(isInf({}, 10), {5}, {0, 0, 1, 0, 1}));
  CHECK(holds(isInf({{"detect_negative", int64_t(0)}}), {5}, {0, 0, 1, 0, 0}));
  CHECK(holds(isInf({{"detect_positive", int64_t(0)}}), {5}, {0, 0, 0, 0, 1}));
  CHECK(holds(isInf({{"detect_positive", int64_t(0)}, {"detect_negative", int64_t(0)}}), {5}, {0, 0, 0, 0, 0}));
  CHECK(isInf({}).getType().getElementType().isInteger(1));
  auto shrink = [](std::vector<Attribute> attributes) {
    return evaluate(unary("Shrink", std::move(attributes), 9), {f32({5}, {-2, -0.5, 0.25, 1.5, NAN})})[0];
  };
  CHECK(holds(shrink({}), {5}, {-2, 0, 0, 1.5, 0}));
  CHECK(holds(shrink({{"lambd", 1.5f}, {"bias", 1.0f}}), {5}, {-1, 0, 0, 0, 0}));
  OnnxModel ints = OnnxModel(9).input("x", {3}, TensorProto::INT64).node("Shrink", {"x"}, {"y"}, {{"bias", 0.25f}}).output("y");
  CHECK(holds(evaluate(ints, {i64({3}, {-3, 0, 4})})[0], {3}, {-2, 0, 3})); // -2.75 and 3.75
}

TEST_CASE("onnx IsNaN and Xor", "[frontend]") {
  CHECK(holds(evaluate(unary("IsNaN"), {f32({5}, {1, NAN, INFINITY, 0, NAN})})[0], {5}, {0, 1, 0, 0, 1}));
  OnnxModel model = OnnxModel(17).input("a", {2, 1}, TensorProto::BOOL).input("b", {2}, TensorProto::BOOL);
  model.node("Xor", {"a", "b"}, {"y"}).output("y");
  CHECK(holds(evaluate(model, {boolean({2, 1}, {0, 1}), boolean({2}, {0, 1})})[0], {2, 2}, {0, 1, 1, 0}));
}

TEST_CASE("onnx reductions of a function", "[frontend]") {
  auto run = [](const std::string &op, std::vector<Attribute> attributes) {
    OnnxModel model = OnnxModel(18).input("x", {2, 2}).ints("axes", {1});
    std::vector<std::string> inputs = {"x"};
    if (attributes.empty()) {
      inputs.push_back("axes");
    }
    return evaluate(model.node(op, inputs, {"y"}, attributes).output("y"), {f32({2, 2}, {1, -2, 3, 4})})[0];
  };
  CHECK(holds(run("ReduceMin", {}), {2, 1}, {-2, 3}));
  CHECK(holds(run("ReduceL1", {}), {2, 1}, {3, 7}));
  CHECK(holds(run("ReduceSumSquare", {}), {2, 1}, {5, 25}));
  CHECK(holds(run("ReduceSumSquare", {{"noop_with_empty_axes", int64_t(1)}}), {2, 2}, {1, 4, 9, 16}));
  CHECK(holds(run("ReduceMin", {{"noop_with_empty_axes", int64_t(1)}}), {2, 2}, {1, -2, 3, 4}));
}

} // namespace ashlar::test::activation_test
