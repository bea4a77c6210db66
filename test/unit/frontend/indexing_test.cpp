// SPDX-License-Identifier: Apache-2.0
//
// ONNX ops that look at indices, against expectations made by hand.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

using namespace ashlar::test;
using onnx::TensorProto;

namespace {

// data (2, 3) = 1..6, indices known or computed -> y.
ashlar::reference::Tensor gather(int64_t axis, std::vector<int64_t> shape, std::vector<double> indices, bool known) {
  OnnxModel model = OnnxModel(17).input("x", {2, 3});
  if (known) {
    model.initializer("i", TensorProto::INT64, shape, indices);
  } else {
    model.input("i", std::vector<Dim>(shape.begin(), shape.end()), TensorProto::INT64);
  }
  model.node("Gather", {"x", "i"}, {"y"}, {{"axis", axis}}).output("y");
  std::vector<ashlar::reference::Tensor> inputs = {f32({2, 3}, {1, 2, 3, 4, 5, 6})};
  if (!known) {
    inputs.push_back(i64(shape, indices));
  }
  return evaluate(model, inputs)[0];
}

} // namespace

// Along each axis, with indices of each rank, from the front and from the back.
TEST_CASE("onnx Gather", "[frontend]") {
  for (bool known : {false, true}) {
    INFO((known ? "known" : "computed"));
    CHECK(holds(gather(0, {3}, {1, 0, -1}, known), {3, 3}, {4, 5, 6, 1, 2, 3, 4, 5, 6}));
    CHECK(holds(gather(1, {2}, {2, -3}, known), {2, 2}, {3, 1, 6, 4}));
    CHECK(holds(gather(-1, {2, 1}, {1, -1}, known), {2, 2, 1}, {2, 3, 5, 6}));
    CHECK(holds(gather(1, {}, {-2}, known), {2}, {2, 5}));
    CHECK(holds(gather(0, {}, {1}, known), {3}, {4, 5, 6}));
  }
  CHECK(holds(gather(0, {2}, {2, -3}, /*known=*/false), {2, 3}, {0, 0, 0, 0, 0, 0}));
}

// In the middle of three dims the dims of the indices stand where the axis was.
TEST_CASE("onnx Gather along a middle axis", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2, 2, 2}).input("i", {1, 3}, TensorProto::INT32);
  model.node("Gather", {"x", "i"}, {"y"}, {{"axis", int64_t(1)}}).output("y");
  auto indices = makeTensor(mlir::IntegerType::get(&context(), 32), {1, 3}, {1, 1, 0});
  CHECK(holds(evaluate(model, {f32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), indices})[0], {2, 1, 3, 2}, {3, 4, 3, 4, 1, 2, 7, 8, 7, 8, 5, 6}));
}

// One known index is a slice: no rows have to be looked up, nor added up in backward.
TEST_CASE("onnx Gather of one known index", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2, 3}).initializer("i", TensorProto::INT64, {}, {-1});
  std::string text = print(*import(model.node("Gather", {"x", "i"}, {"y"}, {{"axis", int64_t(1)}}).output("y")));
  CHECK_THAT(text, contains("nn.slice"));
  CHECK_THAT(text, !contains("nn.gather"));
}

TEST_CASE("onnx Gather reports its faults", "[frontend]") {
  OnnxModel beyond = OnnxModel(17).input("x", {3}).ints("i", {3}).node("Gather", {"x", "i"}, {"y"}, {}, "pick").output("y");
  CHECK_THAT(importError(beyond), contains("node \"pick\" (Gather, opset 17): index 3 is not in [-3, 3)"));
  OnnxModel real = OnnxModel(17).input("x", {3}).input("i", {2}).node("Gather", {"x", "i"}, {"y"}).output("y");
  CHECK_THAT(importError(real), contains("data of tensor<3xf32> by indices of tensor<2xf32> is not supported"));
}

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
