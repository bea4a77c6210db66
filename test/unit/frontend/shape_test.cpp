// SPDX-License-Identifier: Apache-2.0
//
// ONNX ops that move elements, in the spelling of each opset, and the arithmetic on shapes that import folds away.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::shape_test {

using onnx::TensorProto;

namespace {

using Ints = std::vector<int64_t>;

// x (2, 3) = 1..6 -> op, with attributes or with further inputs -> y.
OnnxModel onMatrix(int64_t opset, const std::string &op, std::vector<Attribute> attributes, std::vector<std::vector<double>> inputs = {}) {
  OnnxModel model = OnnxModel(opset).input("x", {2, 3});
  std::vector<std::string> names = {"x"};
  for (std::vector<double> &values : inputs) {
    names.push_back("i" + std::to_string(names.size()));
    model.ints(names.back(), std::move(values));
  }
  return model.node(op, names, {"y"}, std::move(attributes)).output("y");
}

ashlar::reference::Tensor run(const OnnxModel &model) {
  return evaluate(model, {f32({2, 3}, {1, 2, 3, 4, 5, 6})})[0];
}

const std::vector<double> kAll = {1, 2, 3, 4, 5, 6};

} // namespace

TEST_CASE("onnx Reshape and Flatten", "[frontend]") {
  CHECK(holds(run(onMatrix(17, "Reshape", {}, {{3, -1}})), {3, 2}, kAll));
  CHECK(holds(run(onMatrix(7, "Reshape", {}, {{0, 3, 1}})), {2, 3, 1}, kAll)); // 0 copies
  CHECK(holds(run(onMatrix(17, "Reshape", {}, {{2, 3}})), {2, 3}, kAll));
  CHECK_THAT(importError(onMatrix(17, "Reshape", {}, {{4, -1}})), contains("shape [2, 3] cannot become [4, -1]"));
  CHECK_THAT(importError(onMatrix(17, "Reshape", {}, {{4, 2}})), contains("[2, 3] has 6 elements but [4, 2] has 8"));
  CHECK_THAT(importError(onMatrix(17, "Reshape", {{"allowzero", int64_t(1)}}, {{0, 3}})), contains("has 6 elements but [0, 3] has 0"));
  CHECK(holds(run(onMatrix(17, "Flatten", {})), {2, 3}, kAll));
  CHECK(holds(run(onMatrix(17, "Flatten", {{"axis", int64_t(0)}})), {1, 6}, kAll));
  CHECK(holds(run(onMatrix(17, "Flatten", {{"axis", int64_t(2)}})), {6, 1}, kAll));
  CHECK(holds(run(onMatrix(17, "Flatten", {{"axis", int64_t(-1)}})), {2, 3}, kAll));
  CHECK_THAT(importError(onMatrix(17, "Flatten", {{"axis", int64_t(3)}})), contains("axis 3 is not in [-2, 2]"));
}

// The axes are an attribute up to opset 12, an input from 13 on.
TEST_CASE("onnx Squeeze and Unsqueeze", "[frontend]") {
  CHECK(holds(run(onMatrix(11, "Unsqueeze", {{"axes", Ints{0, -1}}})), {1, 2, 3, 1}, kAll));
  CHECK(holds(run(onMatrix(13, "Unsqueeze", {}, {{1}})), {2, 1, 3}, kAll));
  CHECK_THAT(importError(onMatrix(13, "Unsqueeze", {}, {{1, 1}})), contains("axes [1, 1] name an axis twice"));
  auto squeeze = [](int64_t opset, std::vector<Attribute> attributes, std::vector<std::string> more) {
    OnnxModel model = OnnxModel(opset).input("x", {1, 2, 1}).ints("axes", {-1});
    std::vector<std::string> names = {"x"};
    names.insert(names.end(), more.begin(), more.end());
    return model.node("Squeeze", names, {"y"}, std::move(attributes)).output("y");
  };
  auto x = [] { return f32({1, 2, 1}, {1, 2}); };
  CHECK(holds(evaluate(squeeze(11, {}, {}), {x()})[0], {2}, {1, 2}));
  CHECK(holds(evaluate(squeeze(11, {{"axes", Ints{0}}}, {}), {x()})[0], {2, 1}, {1, 2}));
  CHECK(holds(evaluate(squeeze(13, {}, {"axes"}), {x()})[0], {1, 2}, {1, 2}));
  CHECK_THAT(importError(squeeze(11, {{"axes", Ints{1}}}, {})), contains("axis 1 of [1, 2, 1] has size 2, not 1"));
  CHECK_THAT(importError(squeeze(13, {{"axes", Ints{0}}}, {})), contains("attribute \"axes\" is not supported"));
}

TEST_CASE("onnx Transpose", "[frontend]") {
  CHECK(holds(run(onMatrix(17, "Transpose", {})), {3, 2}, {1, 4, 2, 5, 3, 6}));
  CHECK(holds(run(onMatrix(17, "Transpose", {{"perm", Ints{0, 1}}})), {2, 3}, kAll));
  CHECK_THAT(importError(onMatrix(17, "Transpose", {{"perm", Ints{0, 0}}})), contains("not a permutation of the 2 dims"));
}

TEST_CASE("onnx Concat", "[frontend]") {
  OnnxModel model =
      OnnxModel(17).input("a", {2, 1}).input("b", {2, 2}).node("Concat", {"a", "b"}, {"y"}, {{"axis", int64_t(-1)}}).output("y");
  CHECK(holds(evaluate(model, {f32({2, 1}, {1, 2}), f32({2, 2}, {3, 4, 5, 6})})[0], {2, 3}, {1, 3, 4, 2, 5, 6}));
  OnnxModel bad = OnnxModel(17).input("a", {2, 1}).input("b", {3, 2}).node("Concat", {"a", "b"}, {"y"}, {{"axis", int64_t(1)}}).output("y");
  CHECK_THAT(importError(bad), contains("input 1 of tensor<3x2xf32> cannot be joined with input 0 of tensor<2x1xf32> along axis 1"));
  CHECK_THAT(importError(onMatrix(17, "Concat", {})), contains("attribute \"axis\" is missing"));
}

// Bounds are attributes up to opset 9, inputs from 10 on; they clamp.
TEST_CASE("onnx Slice", "[frontend]") {
  CHECK(holds(run(onMatrix(9, "Slice", {{"starts", Ints{1}}, {"ends", Ints{100}}, {"axes", Ints{1}}})), {2, 2}, {2, 3, 5, 6}));
  CHECK(holds(run(onMatrix(9, "Slice", {{"starts", Ints{0, -2}}, {"ends", Ints{1, -1}}})), {1, 1}, {2}));
  CHECK(holds(run(onMatrix(10, "Slice", {}, {{0}, {3}, {1}, {2}})), {2, 2}, {1, 3, 4, 6}));
  CHECK(holds(run(onMatrix(17, "Slice", {}, {{0}, {9}})), {2, 3}, kAll));
  CHECK_THAT(importError(onMatrix(10, "Slice", {}, {{0}, {1}, {2}})), contains("axis 2 is not in [-2, 2)"));
  CHECK_THAT(importError(onMatrix(10, "Slice", {}, {{0, 0}, {1}})), contains("has 2 starts, 1 ends"));
}

// The sizes are an attribute up to opset 12, an input from 13 on; from 18 on the last equal part may be smaller.
TEST_CASE("onnx Split", "[frontend]") {
  auto split = [](int64_t opset, std::vector<std::string> outputs, std::vector<Attribute> attributes, std::vector<double> sizes = {}) {
    OnnxModel model = OnnxModel(opset).input("x", {5});
    std::vector<std::string> names = {"x"};
    if (!sizes.empty()) {
      model.ints("sizes", std::move(sizes));
      names.push_back("sizes");
    }
    model.node("Split", names, outputs, std::move(attributes));
    for (const std::string &name : outputs) {
      model.output(name);
    }
    return model;
  };
  auto x = [] { return f32({5}, {1, 2, 3, 4, 5}); };
  for (const OnnxModel &model : {split(11, {"a", "b"}, {{"split", Ints{2, 3}}}), split(13, {"a", "b"}, {}, {2, 3})}) {
    auto parts = evaluate(model, {x()});
    CHECK(holds(parts[0], {2}, {1, 2}));
    CHECK(holds(parts[1], {3}, {3, 4, 5}));
  }
  auto parts = evaluate(split(18, {"a", "b"}, {{"num_outputs", int64_t(2)}}), {x()});
  CHECK(holds(parts[0], {3}, {1, 2, 3}));
  CHECK(holds(parts[1], {2}, {4, 5}));
  CHECK_THAT(importError(split(13, {"a", "b"}, {})), contains("size 5 does not split into 2 equal parts"));
  CHECK_THAT(importError(split(13, {"a", "b"}, {}, {2, 2})), contains("2 parts of 4 elements in all, but 2 outputs and size 5"));
  CHECK_THAT(importError(split(18, {"a", "b"}, {{"num_outputs", int64_t(3)}})), contains("\"num_outputs\" 3 but there are 2 outputs"));
}

TEST_CASE("onnx Expand", "[frontend]") {
  CHECK(holds(run(onMatrix(17, "Expand", {}, {{2, 1, 1}})), {2, 2, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  CHECK_THAT(importError(onMatrix(17, "Expand", {}, {{1e18, 1, 1}})),
             contains("[1000000000000000000, 2, 3] of f32 has more than 70368744177664 bytes"));
  CHECK_THAT(importError(onMatrix(17, "Expand", {}, {{-1, 2, 3}})), contains("dim -1 is not a possible size"));
  OnnxModel open = OnnxModel(17).input("x", {3}).input("s", {1}, TensorProto::INT64).node("Expand", {"x", "s"}, {"y"}).output("y");
  CHECK_THAT(importError(open), contains("input \"shape\" has to be a list of integers known at compile time"));
}

TEST_CASE("onnx Constant and ConstantOfShape", "[frontend]") {
  auto constant = [](Attribute attribute) { return evaluate(OnnxModel(17).node("Constant", {}, {"y"}, {attribute}).output("y"), {})[0]; };
  CHECK(holds(constant({"value", tensorProto("", TensorProto::FLOAT, {2}, {1.5, 2})}), {2}, {1.5, 2}));
  CHECK(holds(constant({"value", tensorProto("", TensorProto::BOOL, {3}, {1, 0, 1})}), {3}, {1, 0, 1}));
  CHECK(holds(constant({"value_float", 2.5f}), {}, {2.5}));
  CHECK(holds(constant({"value_floats", std::vector<float>{1, 2}}), {2}, {1, 2}));
  CHECK(holds(constant({"value_int", int64_t(7)}), {}, {7}));
  CHECK(holds(constant({"value_ints", Ints{7, 8}}), {2}, {7, 8}));
  CHECK_THAT(importError(OnnxModel(17).node("Constant", {}, {"y"}, {{"value_string", std::string("s")}}).output("y")),
             contains("has none of the attributes value, sparse_value, value_float"));
  auto ofShape = [](std::vector<Attribute> attributes) {
    return evaluate(OnnxModel(17).ints("s", {2, 2}).node("ConstantOfShape", {"s"}, {"y"}, attributes).output("y"), {})[0];
  };
  CHECK(holds(ofShape({}), {2, 2}, {0, 0, 0, 0}));
  CHECK(holds(ofShape({{"value", tensorProto("", TensorProto::INT64, {1}, {3})}}), {2, 2}, {3, 3, 3, 3}));
}

// What exporters write for view(x.size(0), -1): nothing of it is left, not even a constant.
TEST_CASE("onnx shape arithmetic folds", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {std::string("batch"), 2, 3});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Constant", {}, {"zero"}, {{"value_int", int64_t(0)}});
  model.node("Gather", {"shape", "zero"}, {"rows"});
  model.ints("axes", {0}).ints("rest", {-1});
  model.node("Unsqueeze", {"rows", "axes"}, {"rows1"});
  model.node("Concat", {"rows1", "rest"}, {"target"}, {{"axis", int64_t(0)}});
  model.node("Reshape", {"x", "target"}, {"y"}).output("y");
  ashlar::frontend::ImportOptions options;
  options.globalBatch = 4;
  std::string text = print(*import(model, options));
  CHECK_THAT(text, contains("nn.reshape %arg0 {nn.outputs = [\"y\"]} : tensor<4x2x3xf32> -> tensor<4x6xf32>"));
  CHECK(text.find("nn.constant") == std::string::npos);
}

// Every op the evaluator knows, on integers.
TEST_CASE("onnx integer constants are computed at import", "[frontend]") {
  auto fold = [](const std::string &op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
    OnnxModel model = OnnxModel(17).ints("a", {7, -8, 9}).ints("b", {2, 3, -4}).ints("one", {1}).ints("zero", {0});
    model.initializer("m", TensorProto::INT64, {2, 2}, {1, 2, 3, 4}).initializer("c", TensorProto::BOOL, {3}, {1, 0, 1});
    model.ints("four", {4}).ints("three", {3}).ints("shape23", {2, 3}).ints("minus", {-1});
    model.node(op, inputs, {"y"}, std::move(attributes)).output("y");
    auto module = import(model);
    CHECK(std::distance(module->getBody()->begin(), module->getBody()->end()) == 1); // @forward alone
    CHECK_THAT(print(*module), contains("nn.constant dense"));
    return evaluate(model, {})[0];
  };
  CHECK(holds(fold("Abs", {"a"}), {3}, {7, 8, 9}));
  CHECK(holds(fold("Neg", {"a"}), {3}, {-7, 8, -9}));
  CHECK(holds(fold("Add", {"a", "one"}), {3}, {8, -7, 10}));
  CHECK(holds(fold("Sub", {"a", "b"}), {3}, {5, -11, 13}));
  CHECK(holds(fold("Mul", {"a", "b"}), {3}, {14, -24, -36}));
  CHECK(holds(fold("Div", {"a", "b"}), {3}, {3, -2, -2}));
  CHECK(holds(fold("Equal", {"a", "a"}), {3}, {1, 1, 1}));
  CHECK(holds(fold("Less", {"a", "b"}), {3}, {0, 1, 0}));
  CHECK(holds(fold("LessOrEqual", {"b", "a"}), {3}, {1, 0, 1}));
  CHECK(holds(fold("Greater", {"a", "b"}), {3}, {1, 0, 1}));
  CHECK(holds(fold("GreaterOrEqual", {"a", "a"}), {3}, {1, 1, 1}));
  CHECK(holds(fold("And", {"c", "c"}), {3}, {1, 0, 1}));
  CHECK(holds(fold("Or", {"c", "c"}), {3}, {1, 0, 1}));
  CHECK(holds(fold("Not", {"c"}), {3}, {0, 1, 0}));
  CHECK(holds(fold("Where", {"c", "a", "b"}), {3}, {7, 3, 9}));
  CHECK(holds(fold("Cast", {"a"}, {{"to", int64_t(TensorProto::BOOL)}}), {3}, {1, 1, 1}));
  CHECK(holds(fold("Cast", {"a"}, {{"to", int64_t(TensorProto::INT32)}}), {3}, {7, -8, 9}));
  CHECK(holds(fold("Concat", {"m", "m"}, {{"axis", int64_t(1)}}), {2, 4}, {1, 2, 1, 2, 3, 4, 3, 4}));
  CHECK(holds(fold("Gather", {"m", "minus"}, {{"axis", int64_t(1)}}), {2, 1}, {2, 4}));
  CHECK(holds(fold("Expand", {"a", "shape23"}), {2, 3}, {7, -8, 9, 7, -8, 9}));
  CHECK(holds(fold("Reshape", {"m", "four"}), {4}, {1, 2, 3, 4}));
  CHECK(holds(fold("Unsqueeze", {"a", "zero"}), {1, 3}, {7, -8, 9}));
  CHECK(holds(fold("Squeeze", {"one"}), {}, {1}));
  CHECK(holds(fold("Slice", {"m", "one", "four", "one"}), {2, 1}, {2, 4}));
  CHECK(holds(fold("Size", {"m"}), {}, {4}));
  CHECK(holds(fold("Shape", {"m"}, {{"start", int64_t(-1)}}), {1}, {2}));
}

// A table as exporters compute it from constants: the program holds the table alone. What draws random numbers is not known.
TEST_CASE("onnx float constants are computed at import", "[frontend]") {
  OnnxModel model = OnnxModel(17).ints("positions", {0, 1, 2}).input("x", {3, 2});
  model.node("Constant", {}, {"frequencies"}, {{"value_floats", std::vector<float>{1, 0.5f}}}).ints("last", {1});
  model.node("Cast", {"positions"}, {"p"}, {{"to", int64_t(TensorProto::FLOAT)}}).node("Unsqueeze", {"p", "last"}, {"column"});
  model.node("Mul", {"column", "frequencies"}, {"angles"}).node("Cos", {"angles"}, {"table"}).node("Add", {"x", "table"}, {"y"});
  auto module = import(model.output("y").output("table"));
  std::string text = print(*module);
  for (const char *op : {"nn.cos", "nn.mul", "nn.cast"}) {
    CHECK(text.find(op) == std::string::npos);
  }
  auto results = evaluate(model, {f32({3, 2}, {0, 0, 0, 0, 0, 0})});
  for (int i = 0; i < 6; ++i) {
    CHECK(results[1].getFloat(i) == static_cast<float>(std::cos(i / 2 * (i % 2 == 0 ? 1.0 : 0.5))));
    CHECK(results[0].getFloat(i) == results[1].getFloat(i));
  }
  ashlar::frontend::ImportOptions options;
  options.training = true;
  OnnxModel drawn = OnnxModel(11).input("x", {2}).node("Constant", {}, {"c"}, {{"value_floats", std::vector<float>{1, 2}}});
  drawn.node("Dropout", {"c"}, {"d"}).node("Add", {"x", "d"}, {"y"}).output("y");
  CHECK_THAT(print(*import(drawn, options)), contains("nn.random"));
}

TEST_CASE("onnx folding reports its faults", "[frontend]") {
  OnnxModel division = OnnxModel(17).ints("a", {1}).ints("b", {0}).node("Div", {"a", "b"}, {"y"}).output("y");
  CHECK_THAT(importError(division), contains("divides by zero"));
  CHECK_THAT(importError(OnnxModel(17).ints("a", {1}).node("Add", {"a"}, {"y"}).output("y")), contains("input 1 is missing"));
}

} // namespace ashlar::test::shape_test
