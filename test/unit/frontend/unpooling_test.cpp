// SPDX-License-Identifier: Apache-2.0
//
// ONNX MaxUnpool against numbers recorded from ONNX Runtime 1.32, behind the MaxPool that gave the indices.

#include "test/unit/frontend/recorded.h"

#include <catch2/catch.hpp>

namespace ashlar::test::unpooling_test {

using onnx::TensorProto;

namespace {

using Ints = std::vector<int64_t>;

// A MaxPool of ramp(shape) and the MaxUnpool of its results, with the same attributes.
struct Unpooled {
  Ints shape;
  std::vector<Attribute> attributes;
  Ints outputShape; // empty: none is given
  Ints resultShape;
  std::vector<double> result;
};

const std::vector<Unpooled> kUnpooled = {
    {{1, 2, 5, 4},
     {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
     {1, 2, 5, 4},
     {1, 2, 5, 4},
     {0, 0, 3, 0, 0,    4.25, 0, 0, 5.5, 0, 2.125, 0, 0,     0, 0, 0, 0, 0, 0, 0,
      0, 0, 0, 0, 3.75, 0,    0, 5, 0,   0, 6.25,  0, 2.875, 0, 0, 0, 0, 0, 0, 0}},
    {{2, 2, 4},
     {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}},
     {},
     {2, 2, 4},
     {0, -1.625, 3, 0, 0, 4.25, 0, 0.875, 5.5, 0, 2.125, 0, 0, 3.375, 0, 0}},
    {{2, 1, 5, 5},
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}},
     {},
     {2, 1, 5, 5},
     {0, 0, 0, 0, 0,     4.25, 0, 0, 5.5, 0, 0, 0, 0, 0,     0, 0, 4.625, 0, 0, 5.875, 0, 0,   0, 0, 0,
      0, 0, 5, 0, 1.625, 6.25, 0, 0, 0,   0, 0, 0, 0, 5.375, 0, 0, 0,     0, 0, 0,     0, 4.5, 0, 0, 5.75}},
    {{1, 2, 7}, {{"kernel_shape", Ints{3}}}, {}, {1, 2, 7}, {0, 0, 3, 0, 0, 4.25, 0, 0, 5.5, 0, 2.125, 0, 0, 3.375}},
    {{1, 1, 6, 7}, {{"kernel_shape", Ints{3, 4}}, {"strides", Ints{1, 2}}}, {1, 1, 6, 7}, {1, 1, 6, 7}, {0, 0,     0, 0,    0, 0, 0, 0, 5.5,
                                                                                                         0, 0,     0, 0,    0, 0, 0, 0, 0,
                                                                                                         0, 5.875, 0, 0,    0, 0, 0, 0, 0,
                                                                                                         0, 0,     0, 6.25, 0, 0, 0, 0, 0,
                                                                                                         0, 0,     0, 0,    0, 0}},
};

// Unpools {1, 2, 3} at these positions of 6.
OnnxModel unpool(std::vector<Attribute> attributes, Ints outputShape = {}) {
  OnnxModel model(22);
  model.input("x", {1, 1, 3}).input("i", {1, 1, 3}, TensorProto::INT64);
  model.ints("s", std::vector<double>(outputShape.begin(), outputShape.end()));
  return model.node("MaxUnpool", {"x", "i", outputShape.empty() ? "" : "s"}, {"y"}, std::move(attributes)).output("y");
}

const std::vector<Attribute> kPairs = {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}, kOverlapping = {{"kernel_shape", Ints{4}}};

} // namespace

TEST_CASE("onnx MaxUnpool", "[frontend]") {
  for (const Unpooled &row : kUnpooled) {
    for (int64_t opset : {11, 22}) {
      INFO("shape " << row.shape.size() << " dims, " << row.result.size() << " elements, opset " << opset);
      OnnxModel model(opset);
      model.input("x", std::vector<Dim>(row.shape.begin(), row.shape.end()));
      model.ints("s", std::vector<double>(row.outputShape.begin(), row.outputShape.end()));
      model.node("MaxPool", {"x"}, {"y", "i"}, row.attributes);
      model.node("MaxUnpool", {"y", "i", row.outputShape.empty() ? "" : "s"}, {"z"}, row.attributes).output("z");
      CHECK(holds(evaluate(model, {ramp(row.shape)})[0], row.resultShape, row.result));
    }
  }
}

// Of positions with one index the last one counts, as far apart as overlapping windows are; an index out of range takes no part.
TEST_CASE("onnx MaxUnpool: indices", "[frontend]") {
  auto result = [](const std::vector<Attribute> &attributes, std::vector<double> indices) {
    return evaluate(unpool(attributes, {1, 1, 6}), {f32({1, 1, 3}, {1, 2, 3}), i64({1, 1, 3}, std::move(indices))})[0];
  };
  CHECK(holds(result(kPairs, {1, 2, 5}), {1, 1, 6}, {0, 1, 2, 0, 0, 3}));
  CHECK(holds(result(kPairs, {1, 6, -1}), {1, 1, 6}, {0, 1, 0, 0, 0, 0}));
  CHECK(holds(result(kOverlapping, {1, 1, 5}), {1, 1, 6}, {0, 2, 0, 0, 0, 3}));
  CHECK(holds(result(kOverlapping, {0, 2, 0}), {1, 1, 6}, {3, 0, 2, 0, 0, 0}));
}

// An index in another channel than its window takes no part either.
TEST_CASE("onnx MaxUnpool: channels", "[frontend]") {
  OnnxModel model(22);
  model.input("x", {2, 2, 1}).input("i", {2, 2, 1}, TensorProto::INT64).node("MaxUnpool", {"x", "i"}, {"y"}, kPairs).output("y");
  auto result = [&](std::vector<double> indices) {
    return evaluate(model, {f32({2, 2, 1}, {1, 2, 3, 4}), i64({2, 2, 1}, std::move(indices))})[0];
  };
  CHECK(holds(result({1, 2, 4, 7}), {2, 2, 2}, {0, 1, 2, 0, 3, 0, 0, 4}));
  CHECK(holds(result({2, 3, 1, 6}), {2, 2, 2}, {0, 0, 0, 2, 0, 0, 4, 0}));
}

TEST_CASE("onnx MaxUnpool: errors", "[frontend]") {
  CHECK_THAT(importError(unpool({})), contains("has no attribute \"kernel_shape\""));
  CHECK_THAT(importError(unpool(kPairs, {6})),
             contains("input \"output_shape\" is [6]; it needs the batch and the channels of X, [1, 1, 3] of f32"));
  CHECK_THAT(importError(unpool(kPairs, {1, 1, -1})), contains("input \"output_shape\" is [1, 1, -1]"));
  CHECK_THAT(
      importError(unpool({{"kernel_shape", Ints{2}}, {"pads", Ints{3, 3}}})),
      contains(
          "spatial dim 0 of the result has no size from 1 to 2147483647: X has 3 positions, with stride 1, a kernel of 2, pads 3 and 3"));
  CHECK_THAT(importError(unpool({{"kernel_shape", Ints{2}}, {"auto_pad", std::string("VALID")}})), contains("auto_pad"));
  OnnxModel known(22);
  known.input("x", {1, 1, 2})
      .initializer("i", TensorProto::INT64, {1, 1, 2}, {0, 4})
      .node("MaxUnpool", {"x", "i"}, {"y"}, kPairs)
      .output("y");
  CHECK_THAT(importError(known), contains("index 4 is not in [0, 4), the elements of its channel in the result"));
  OnnxModel astray(22);
  astray.input("x", {2, 1, 1})
      .initializer("i", TensorProto::INT64, {2, 1, 1}, {0, 1})
      .node("MaxUnpool", {"x", "i"}, {"y"}, kPairs)
      .output("y");
  CHECK_THAT(importError(astray), contains("index 1 is not in [2, 4), the elements of its channel in the result"));
  OnnxModel narrow(22);
  narrow.input("x", {1, 1, 2}).input("i", {1, 2}, TensorProto::INT64).node("MaxUnpool", {"x", "i"}, {"y"}, kPairs).output("y");
  CHECK_THAT(importError(narrow), contains("input I is [1, 2] of i64, not [1, 1, 2] of i64 as X has it"));
}

} // namespace ashlar::test::unpooling_test
