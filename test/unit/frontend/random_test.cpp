// SPDX-License-Identifier: Apache-2.0
//
// Ops that draw, against numbers that a Philox written from its paper, in Python, gives for the seed, the step, the name and the index.

#include "test/unit/frontend/onnx_model.h"

#include "compiler/reference/interpreter.h"
#include "dialects/nn/nn.h"

#include <cmath>

namespace ashlar::test::random_test {

using onnx::TensorProto;
using Tensors = std::vector<ashlar::reference::Tensor>;

namespace {

// Imports a model and runs it with seed 7 in step 3.
Tensors draw(const OnnxModel &model, Tensors inputs = {}, const ashlar::frontend::ImportOptions &options = {}) {
  auto module = import(model, options);
  for (auto variable : module->getOps<ashlar::nn::VariableOp>()) {
    int64_t value = variable.getSymName() == ashlar::nn::kSeedVariable ? 7 : 3;
    variable.setInitAttr(mlir::DenseElementsAttr::get(variable.getTensorType(), value));
  }
  ashlar::reference::Interpreter interpreter(*module);
  std::vector<ashlar::reference::RankTensors> ranks;
  for (ashlar::reference::Tensor &input : inputs) {
    ranks.push_back({std::move(input)});
  }
  auto results = interpreter.run("forward", ranks);
  REQUIRE(succeeded(results));
  Tensors tensors;
  for (ashlar::reference::RankTensors &result : *results) {
    tensors.push_back(std::move(result.front()));
  }
  return tensors;
}

// One node "n" of an input "x".
OnnxModel modelOf(const std::string &op, std::vector<Dim> shape, std::vector<Attribute> attributes, int32_t type = TensorProto::FLOAT) {
  return OnnxModel(22).input("x", std::move(shape), type).node(op, {"x"}, {"y"}, std::move(attributes), "n").output("y");
}

OnnxModel sourceOf(const std::string &op, std::vector<Attribute> attributes) {
  return OnnxModel(22).node(op, {}, {"y"}, std::move(attributes), "n").output("y");
}

} // namespace

TEST_CASE("onnx RandomUniform and RandomNormal", "[frontend]") {
  const std::vector<double> uniform = {0.3747325, 3.6145406, 5.4598818, -0.8565292, 5.4546413, 5.5610652},
                            normal = {1.1978453, 1.6322967, -0.0784476, 0.8118011, 2.0116268, -0.1266641};
  const Attribute shape = {"shape", std::vector<int64_t>{2, 3}};
  CHECK(holds(draw(sourceOf("RandomUniform", {shape, {"low", -2.0f}, {"high", 6.0f}}))[0], {2, 3}, uniform));
  CHECK(holds(draw(sourceOf("RandomNormal", {shape, {"mean", 1.0f}, {"scale", 0.5f}}))[0], {2, 3}, normal));
  auto x = [] { return f32({2, 3}, std::vector<double>(6, 0)); };
  CHECK(holds(draw(modelOf("RandomUniformLike", {2, 3}, {{"low", -2.0f}, {"high", 6.0f}}), {x()})[0], {2, 3}, uniform));
  CHECK(holds(draw(modelOf("RandomNormalLike", {2, 3}, {{"mean", 1.0f}, {"scale", 0.5f}}), {x()})[0], {2, 3}, normal));
  auto wide = draw(sourceOf("RandomUniform", {shape, {"dtype", int64_t(TensorProto::DOUBLE)}}))[0];
  CHECK(wide.getType().getElementType().isF64());
  CHECK(holds(wide, {2, 3}, {0.2968416, 0.7018176, 0.9324853, 0.1429339, 0.9318302, 0.9451332}));
  CHECK(draw(sourceOf("RandomNormal", {shape, {"dtype", int64_t(TensorProto::FLOAT16)}}))[0].getType().getElementType().isF16());
  CHECK(holds(draw(sourceOf("RandomUniform", {{"shape", std::vector<int64_t>{0, 3}}}))[0], {0, 3}, {}));
}

// A node's own seed stands for its name: nodes of one seed draw the same, those of none do not.
TEST_CASE("onnx random ops with a seed of their own", "[frontend]") {
  const Attribute shape = {"shape", std::vector<int64_t>{4}}, seed = {"seed", 2.5f};
  OnnxModel model = OnnxModel(7).node("RandomUniform", {}, {"a"}, {shape, seed}, "a").node("RandomUniform", {}, {"b"}, {shape, seed}, "b");
  model.node("RandomUniform", {}, {"c"}, {shape}, "c").node("RandomUniform", {}, {"d"}, {shape}, "d");
  Tensors drawn = draw(model.output("a").output("b").output("c").output("d"));
  CHECK(holds(drawn[0], {4}, {0.2987457, 0.4076212, 0.5681936, 0.0508136}));
  CHECK(holds(drawn[1], {4}, {0.2987457, 0.4076212, 0.5681936, 0.0508136}));
  for (size_t i : {2, 3}) {
    CHECK(drawn[i].getFloat(0) != drawn[i == 2 ? 3 : 2].getFloat(0));
    CHECK(drawn[i].getFloat(0) != drawn[0].getFloat(0));
  }
}

// What is known of the input makes no number known.
TEST_CASE("onnx Bernoulli", "[frontend]") {
  const std::vector<double> p = {0, 0.25, 0.5, 0.75, 1, 0.5}, expected = {0, 0, 0, 1, 1, 0};
  CHECK(holds(draw(modelOf("Bernoulli", {6}, {}), {f32({6}, p)})[0], {6}, expected));
  auto ints = draw(modelOf("Bernoulli", {6}, {{"dtype", int64_t(TensorProto::INT32)}}), {f32({6}, p)})[0];
  CHECK(ints.getType().getElementType().isInteger(32));
  CHECK(holds(ints, {6}, expected));
  OnnxModel known = OnnxModel(15).node("Constant", {}, {"p"}, {{"value", tensorProto("", TensorProto::FLOAT, {6}, p)}});
  CHECK(holds(draw(known.node("Bernoulli", {"p"}, {"y"}, {}, "n").output("y"))[0], {6}, expected));
}

// Classes of probabilities 1 to 4 tenths, and of 8, 1, 0 and 1 tenths.
TEST_CASE("onnx Multinomial", "[frontend]") {
  auto logits = [] { return f32({2, 4}, {0, std::log(2), std::log(3), std::log(4), std::log(8), 0, -INFINITY, 0}); };
  OnnxModel five = modelOf("Multinomial", {2, 4}, {{"sample_size", int64_t(5)}});
  auto drawn = draw(five, {logits()})[0];
  CHECK(drawn.getType().getElementType().isInteger(32));
  CHECK(holds(drawn, {2, 5}, {2, 1, 2, 3, 3, 0, 3, 0, 0, 0}));
  constexpr int64_t kMany = 10000;
  auto many = draw(modelOf("Multinomial", {2, 4}, {{"sample_size", kMany}, {"dtype", int64_t(TensorProto::INT64)}}), {logits()})[0];
  CHECK(many.getType().getElementType().isInteger(64));
  const double shares[2][4] = {{0.1, 0.2, 0.3, 0.4}, {0.8, 0.1, 0, 0.1}};
  for (int64_t row = 0; row < 2; ++row) {
    std::vector<int> counts(4, 0);
    for (int64_t i = 0; i < kMany; ++i) {
      ++counts.at(many.getInt(row * kMany + i));
    }
    for (int c = 0; c < 4; ++c) {
      double share = shares[row][c], deviation = std::sqrt(share * (1 - share) / kMany);
      CHECK(std::abs(static_cast<double>(counts[c]) / kMany - share) <= 4 * deviation);
    }
  }
}

TEST_CASE("onnx random ops refuse", "[frontend]") {
  CHECK_THAT(importError(modelOf("RandomUniformLike", {2}, {}, TensorProto::INT64)), contains("draws i64, which is no float"));
  CHECK_THAT(importError(sourceOf("RandomNormal", {{"shape", std::vector<int64_t>{2}}, {"dtype", int64_t(TensorProto::BOOL)}})),
             contains("draws bool, which is no float"));
  CHECK_THAT(importError(modelOf("Multinomial", {4}, {})), contains("draws 1 samples as i32 from [4] of f32"));
  CHECK_THAT(importError(modelOf("Multinomial", {2, 4}, {{"sample_size", int64_t(0)}})), contains("draws 0 samples as i32"));
  CHECK_THAT(importError(modelOf("Multinomial", {2, 4}, {{"dtype", int64_t(TensorProto::FLOAT)}})), contains("draws 1 samples as f32"));
  CHECK_THAT(importError(modelOf("Bernoulli", {2}, {}, TensorProto::INT64)), contains("its inputs are floats"));
}

// Where nothing is trained it is the identity, whatever the node says, and its mask keeps all; the ratio is an attribute up to opset 11, an
// input from 12 on.
TEST_CASE("onnx Dropout at inference", "[frontend]") {
  OnnxModel old = OnnxModel(10).input("x", {2}).node("Dropout", {"x"}, {"y", "mask"}, {{"ratio", 0.3f}}).output("y").output("mask");
  auto results = evaluate(old, {f32({2}, {1, 2})});
  CHECK(holds(results[0], {2}, {1, 2}));
  CHECK(holds(results[1], {2}, {1, 1}));
  for (double mode : {0, 1}) {
    OnnxModel told = OnnxModel(17).input("x", {2}).initializer("mode", TensorProto::BOOL, {}, {mode});
    CHECK_THAT(importError(told.node("Dropout", {"x", "", "mode"}, {"y"}).output("y")), contains("return %arg0"));
  }
}

// In training every element is dropped or scaled by 1 / (1 - ratio), about `ratio` of them dropped, by the seed and the step,
// whatever the node says.
TEST_CASE("onnx Dropout in training", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {1000}).initializer("ratio", TensorProto::FLOAT, {}, {0.25});
  model.initializer("mode", TensorProto::BOOL, {}, {0})
      .node("Dropout", {"x", "ratio", "mode"}, {"y", "mask"}, {}, "drop")
      .output("y")
      .output("mask");
  ashlar::frontend::ImportOptions options;
  options.training = true;
  std::string text = print(*import(model, options));
  CHECK_THAT(text, contains("nn.variable @ashlar.seed internal : tensor<i64>\n"));
  CHECK_THAT(text, contains("nn.variable @ashlar.step internal : tensor<i64> = dense<0> : tensor<i64>"));
  CHECK_THAT(text, contains("nn.training_only"));
  auto results = draw(model, {f32({1000}, std::vector<double>(1000, 3.0))}, options);
  int kept = 0;
  for (int i = 0; i < 1000; ++i) {
    double value = results[0].getNumber(i);
    bool keep = results[1].getNumber(i) != 0;
    kept += keep;
    CHECK(std::abs(value - (keep ? 4.0 : 0.0)) < 1e-5);
  }
  CHECK(kept > 700); // 750 expected, standard deviation 14
  CHECK(kept < 800);
}

TEST_CASE("onnx Dropout with a bad ratio", "[frontend]") {
  OnnxModel model =
      OnnxModel(17).input("x", {2}).initializer("r", TensorProto::FLOAT, {}, {1}).node("Dropout", {"x", "r"}, {"y"}).output("y");
  CHECK_THAT(importError(model), contains("ratio 1.000000 is not in [0, 1)"));
  OnnxModel open = OnnxModel(17).input("x", {2}).input("r", {}).node("Dropout", {"x", "r"}, {"y"}).output("y");
  CHECK_THAT(importError(open), contains("input \"ratio\" has to be a scalar known at compile time"));
}

} // namespace ashlar::test::random_test
