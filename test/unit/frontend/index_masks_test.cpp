// SPDX-License-Identifier: Apache-2.0
//
// ONNX ops that compare the index of an element, against expectations made by hand and by ONNX Runtime 1.32.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <limits>

namespace ashlar::test::index_masks_test {

using onnx::TensorProto;

TEST_CASE("onnx Trilu", "[frontend]") {
  auto run = [](int64_t upper, std::vector<double> k) {
    OnnxModel model = OnnxModel(17).input("x", {2, 3});
    std::vector<std::string> inputs = {"x"};
    if (!k.empty()) {
      model.initializer("k", TensorProto::INT64, {}, k);
      inputs.push_back("k");
    }
    model.node("Trilu", inputs, {"y"}, {{"upper", upper}}).output("y");
    return evaluate(model, {f32({2, 3}, {1, 2, 3, 4, 5, 6})})[0];
  };
  CHECK(holds(run(1, {}), {2, 3}, {1, 2, 3, 0, 5, 6}));
  CHECK(holds(run(0, {}), {2, 3}, {1, 0, 0, 4, 5, 0}));
  CHECK(holds(run(1, {1}), {2, 3}, {0, 2, 3, 0, 0, 6}));
  CHECK(holds(run(0, {-1}), {2, 3}, {0, 0, 0, 4, 0, 0}));
  OnnxModel vector = OnnxModel(17).input("x", {3}).node("Trilu", {"x"}, {"y"}).output("y");
  CHECK_THAT(importError(vector), contains("input has rank 1, not at least 2"));
  OnnxModel two = OnnxModel(17).input("x", {3, 3}).ints("k", {1, 2}).node("Trilu", {"x", "k"}, {"y"}).output("y");
  CHECK_THAT(importError(two), contains("input \"k\" has 2 elements, not 1"));
}

TEST_CASE("onnx EyeLike", "[frontend]") {
  auto eye = [](std::vector<Attribute> attributes) {
    OnnxModel model = OnnxModel(9).input("x", {2, 3}).node("EyeLike", {"x"}, {"y"}, std::move(attributes)).output("y");
    return evaluate(model, {f32({2, 3}, std::vector<double>(6, std::numeric_limits<double>::quiet_NaN()))})[0];
  };
  CHECK(holds(eye({}), {2, 3}, {1, 0, 0, 0, 1, 0}));
  CHECK(holds(eye({{"k", int64_t(1)}}), {2, 3}, {0, 1, 0, 0, 0, 1}));
  CHECK(holds(eye({{"k", int64_t(-1)}}), {2, 3}, {0, 0, 0, 1, 0, 0}));
  CHECK(holds(eye({{"k", std::numeric_limits<int64_t>::max()}}), {2, 3}, {0, 0, 0, 0, 0, 0}));
  auto ints = eye({{"dtype", int64_t(TensorProto::INT64)}});
  CHECK(holds(ints, {2, 3}, {1, 0, 0, 0, 1, 0}));
  CHECK(ints.getType().getElementType().isInteger(64));
  OnnxModel cube = OnnxModel(9).input("x", {2, 3, 1}).node("EyeLike", {"x"}, {"y"}).output("y");
  CHECK_THAT(importError(cube), contains("input has rank 3, not 2"));
}

namespace {

// Indices and values that are inputs, or known.
struct OneHot {
  int64_t opset = 11;
  int32_t indexType = TensorProto::INT64;
  std::vector<int64_t> shape;
  std::vector<double> indices;
  double depth = 3;
  int32_t valueType = TensorProto::FLOAT;
  std::vector<double> values = {0, 1};
  std::vector<Attribute> attributes = {};
};

OnnxModel modelOf(const OneHot &what, bool known) {
  OnnxModel model = OnnxModel(what.opset).input("i", {what.shape.begin(), what.shape.end()}, what.indexType);
  model.initializer("d", TensorProto::FLOAT, {1}, {what.depth});
  if (known) {
    model.initializer("v", what.valueType, {2}, what.values);
  } else {
    model.input("v", {2}, what.valueType);
  }
  return model.node("OneHot", {"i", "d", "v"}, {"y"}, what.attributes).output("y");
}

bool gives(const OneHot &what, const std::vector<int64_t> &shape, const std::vector<double> &values) {
  bool result = true;
  for (bool known : {false, true}) {
    mlir::Builder builder(&context());
    std::vector<ashlar::reference::Tensor> inputs = {what.indexType == TensorProto::FLOAT ? f32(what.shape, what.indices)
                                                                                          : i64(what.shape, what.indices)};
    if (!known) {
      inputs.push_back(what.valueType == TensorProto::FLOAT ? f32({2}, what.values) : i64({2}, what.values));
    }
    result = holds(evaluate(modelOf(what, known), inputs)[0], shape, values) && result;
  }
  return result;
}

} // namespace

TEST_CASE("onnx OneHot", "[frontend]") {
  OneHot row;
  row.shape = {5};
  row.indices = {0, 2, -1, 3, -4};
  CHECK(gives(row, {5, 3}, {1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}));
  row.opset = 9; // a negative index was none
  CHECK(gives(row, {5, 3}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  OneHot first;
  first.shape = {2, 2};
  first.indices = {1, 0, 2, -3};
  first.valueType = TensorProto::INT64;
  first.values = {-1, 7};
  first.attributes = {{"axis", int64_t(0)}};
  CHECK(gives(first, {3, 2, 2}, {-1, 7, -1, 7, 7, -1, -1, -1, -1, -1, 7, -1}));
  first.attributes = {{"axis", int64_t(-2)}};
  CHECK(gives(first, {2, 3, 2}, {-1, 7, 7, -1, -1, -1, -1, 7, -1, -1, 7, -1}));
  OneHot floats; // truncated
  floats.indexType = TensorProto::FLOAT;
  floats.shape = {3};
  floats.indices = {1.75, -0.5, -1.25};
  floats.depth = 2;
  CHECK(gives(floats, {3, 2}, {0, 1, 1, 0, 0, 1}));
  OneHot scalar;
  scalar.indices = {1};
  CHECK(gives(scalar, {3}, {0, 1, 0}));
}

// Known values are no parameter: nothing trains them.
TEST_CASE("onnx OneHot by initializers", "[frontend]") {
  OneHot what;
  what.shape = {2};
  CHECK_THAT(print(*import(modelOf(what, true))), !contains("nn.variable"));
}

TEST_CASE("onnx OneHot: errors", "[frontend]") {
  OneHot what;
  what.shape = {2};
  what.depth = -1;
  CHECK_THAT(importError(modelOf(what, true)),
             contains("input \"depth\" has to be one number that is not negative, known at compile time"));
  what.depth = 0x1p45;
  CHECK_THAT(importError(modelOf(what, true)), contains("bytes, the most that a tensor may have"));
  what.depth = 3;
  what.attributes = {{"axis", int64_t(2)}};
  CHECK_THAT(importError(modelOf(what, true)), contains("axis 2 is not in [-2, 2)"));
  OnnxModel open = OnnxModel(11).input("i", {2}, TensorProto::INT64).input("d", {}, TensorProto::INT64).input("v", {2});
  CHECK_THAT(importError(open.node("OneHot", {"i", "d", "v"}, {"y"}).output("y")), contains("input \"depth\" has to be one number"));
  OnnxModel three = OnnxModel(11).input("i", {2}, TensorProto::INT64).ints("d", {2}).input("v", {3});
  CHECK_THAT(importError(three.node("OneHot", {"i", "d", "v"}, {"y"}).output("y")),
             contains("input \"values\" is [3] of f32, not two elements, off and on"));
}

} // namespace ashlar::test::index_masks_test
