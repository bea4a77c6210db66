// SPDX-License-Identifier: Apache-2.0
//
// ONNX ops that look at indices, against expectations made by hand.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <limits>

namespace ashlar::test::indexing_test {

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

namespace {

// data, indices (computed or known) and updates -> op -> y; expectations are those of ONNX's own examples, or NumPy's.
struct Case {
  std::string op;
  std::vector<int64_t> dataShape;
  std::vector<double> data;
  std::vector<int64_t> indexShape;
  std::vector<double> indices;
  std::vector<int64_t> updateShape;
  std::vector<double> updates;
  std::vector<Attribute> attributes;
  int64_t opset = 18;
};

OnnxModel modelOf(const Case &what, bool known) {
  OnnxModel model = OnnxModel(what.opset).input("x", {what.dataShape.begin(), what.dataShape.end()});
  std::vector<std::string> inputs = {"x", "i"};
  if (known) {
    model.initializer("i", TensorProto::INT64, what.indexShape, what.indices);
  } else {
    model.input("i", {what.indexShape.begin(), what.indexShape.end()}, TensorProto::INT64);
  }
  if (!what.updateShape.empty()) {
    model.input("u", {what.updateShape.begin(), what.updateShape.end()});
    inputs.push_back("u");
  }
  return model.node(what.op, inputs, {"y"}, what.attributes, "n").output("y");
}

bool gives(const Case &what, const std::vector<int64_t> &shape, const std::vector<double> &values) {
  bool result = true;
  for (bool known : {false, true}) {
    std::vector<ashlar::reference::Tensor> inputs = {f32(what.dataShape, what.data)};
    if (!known) {
      inputs.push_back(i64(what.indexShape, what.indices));
    }
    if (!what.updateShape.empty()) {
      inputs.push_back(f32(what.updateShape, what.updates));
    }
    result = holds(evaluate(modelOf(what, known), inputs)[0], shape, values) && result;
  }
  return result;
}

const std::vector<double> kNine = {1, 2, 3, 4, 5, 6, 7, 8, 9};

} // namespace

TEST_CASE("onnx GatherElements", "[frontend]") {
  auto on = [](std::vector<int64_t> shape, std::vector<double> indices, int64_t axis) {
    return Case{"GatherElements", {3, 3}, kNine, shape, indices, {}, {}, {{"axis", axis}}};
  };
  CHECK(gives(on({2, 3}, {1, 2, 0, 2, 0, 0}, 0), {2, 3}, {4, 8, 3, 7, 2, 3}));
  CHECK(gives(on({2, 3}, {-1, -2, 0, -2, 0, 0}, 0), {2, 3}, {7, 5, 3, 4, 2, 3}));
  CHECK(gives(on({3, 1}, {2, 0, -1}, -1), {3, 1}, {3, 4, 9}));
  CHECK(gives({"GatherElements", {2, 2}, {1, 2, 3, 4}, {2, 2}, {0, 0, 1, 0}, {}, {}, {{"axis", int64_t(1)}}}, {2, 2}, {1, 1, 4, 3}));
  // Fewer indices than elements in each dim, by ONNX Runtime, and none.
  const std::vector<double> ramp = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
  for (auto [axis, expected] : {std::pair(0, std::vector<double>{12, 13, 4, 17}), std::pair(1, std::vector<double>{4, 9, 0, 5}),
                                std::pair(2, std::vector<double>{1, 3, 4, 5})}) {
    CHECK(gives({"GatherElements", {2, 3, 4}, ramp, {1, 2, 2}, {1, -1, 0, 1}, {}, {}, {{"axis", int64_t(axis)}}}, {1, 2, 2}, expected));
  }
  CHECK(gives(on({0, 3}, {}, 0), {0, 3}, {}));
  CHECK(gives(on({3, 0}, {}, 1), {3, 0}, {}));
  CHECK(gives(on({0, 2}, {}, 1), {0, 2}, {}));
  // One that is computed and out of range is no other element.
  Case beyond = on({1, 3}, {3, -4, 1}, 0);
  CHECK(holds(evaluate(modelOf(beyond, false), {f32({3, 3}, kNine), i64({1, 3}, {3, -4, 1})})[0], {1, 3}, {0, 0, 6}));
  CHECK_THAT(importError(modelOf(beyond, true)), contains("index 3 is not in [-3, 3)"));
  CHECK_THAT(importError(modelOf(on({4, 4}, std::vector<double>(16, 0), 0), true)), contains("do not fit into data of [3, 3] of f32"));
}

TEST_CASE("onnx GatherND", "[frontend]") {
  auto on = [](std::vector<int64_t> shape, std::vector<double> indices, int64_t batchDims = 0) {
    return Case{"GatherND", {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, shape, indices, {}, {}, {{"batch_dims", batchDims}}};
  };
  CHECK(gives(on({2, 2}, {0, 1, 1, 0}), {2, 2}, {2, 3, 4, 5}));
  CHECK(gives(on({2, 1, 2}, {0, 1, -1, 0}), {2, 1, 2}, {2, 3, 4, 5}));
  CHECK(gives(on({1, 3}, {1, 0, 1}), {1}, {5}));
  CHECK(gives(on({2, 1}, {1, 0}, 1), {2, 2}, {2, 3, 4, 5}));
  CHECK_THAT(importError(modelOf(on({1, 2}, {1, 2}), true)), contains("index 2 is not in [-2, 2)"));
  CHECK_THAT(importError(modelOf(on({1, 4}, {0, 0, 0, 0}), false)),
             contains("name no places in data of [2, 2, 2] of f32 with 0 batch dims"));
}

// What is known of the places is computed at import: the program looks up numbers.
TEST_CASE("onnx GatherElements and GatherND by known indices", "[frontend]") {
  Case elements{"GatherElements", {2, 2, 2}, {}, {1, 2, 2}, {-1, 0, 0, 1}, {}, {}, {{"axis", int64_t(2)}}};
  Case tuples{"GatherND", {2, 3, 2}, {}, {2, 1, 1}, {2, -3}, {}, {}, {{"batch_dims", int64_t(1)}}};
  for (const Case &what : {elements, tuples}) {
    std::string text = print(*import(modelOf(what, true)));
    CHECK_THAT(text, contains("nn.gather"));
    for (const char *op : {"nn.index", "nn.add", "nn.mul", "nn.compare", "nn.select"}) {
      CHECK(text.find(op) == std::string::npos);
    }
  }
  elements.data = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(gives(elements, {1, 2, 2}, {1, 0, 2, 3}));
  tuples.data = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  CHECK(gives(tuples, {2, 1, 2}, {4, 5, 6, 7}));
}

TEST_CASE("onnx Gather of bools", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {3}, TensorProto::BOOL).input("i", {2}, TensorProto::INT64).node("Gather", {"x", "i"}, {"y"});
  CHECK(holds(evaluate(model.output("y"), {boolean({3}, {0, 1, 1}), i64({2}, {2, 0})})[0], {2}, {1, 0}));
  OnnxModel tuples = OnnxModel(17).input("x", {3}, TensorProto::BOOL).input("i", {2, 1}, TensorProto::INT64);
  tuples.node("GatherND", {"x", "i"}, {"y"}).output("y");
  auto results = evaluate(tuples, {boolean({3}, {0, 1, 1}), i64({2, 1}, {2, 0})});
  CHECK(holds(results[0], {2}, {1, 0}));
  CHECK(results[0].getType().getElementType().isInteger(1));
}

TEST_CASE("onnx ScatterElements and ScatterND", "[frontend]") {
  CHECK(gives({"ScatterElements", {3, 3}, std::vector<double>(9, 0), {2, 3}, {1, 0, 2, 0, 2, 1}, {2, 3}, {1, 1.5, 1.25, 2, 2.5, 2.25}, {}},
              {3, 3}, {2, 1.5, 0, 1, 0, 2.25, 0, 2.5, 1.25}));
  Case row = {"ScatterElements", {1, 5}, {1, 2, 3, 4, 5}, {1, 2}, {1, -2}, {1, 2}, {1.5, 2.5}, {{"axis", int64_t(1)}}};
  CHECK(gives(row, {1, 5}, {1, 1.5, 3, 2.5, 5}));
  row.opset = 9;
  row.op = "Scatter";
  CHECK(gives(row, {1, 5}, {1, 1.5, 3, 2.5, 5}));
  Case added = {"ScatterElements",
                {1, 5},
                {1, 2, 3, 4, 5},
                {1, 2},
                {1, 1},
                {1, 2},
                {1.5, 2.5},
                {{"axis", int64_t(1)}, {"reduction", std::string("add")}}};
  CHECK(gives(added, {1, 5}, {1, 6, 3, 4, 5}));
  CHECK(gives({"ScatterND", {8}, {1, 2, 3, 4, 5, 6, 7, 8}, {4, 1}, {4, 3, 1, 7}, {4}, {9, 10, 11, 12}, {}}, {8},
              {1, 11, 3, 10, 9, 6, 7, 12}));
  CHECK(gives({"ScatterND", {3, 3}, kNine, {2, 1}, {2, -3}, {2, 3}, {10, 20, 30, 40, 50, 60}, {}}, {3, 3},
              {40, 50, 60, 4, 5, 6, 10, 20, 30}));
  // Fewer updates than elements in each dim, by ONNX Runtime.
  Case part = {"ScatterElements", {3, 3}, kNine, {2, 2}, {2, -3, 1, 2}, {2, 2}, {10, 20, 30, 40}, {{"axis", int64_t(0)}}};
  CHECK(gives(part, {3, 3}, {1, 20, 3, 30, 5, 6, 10, 40, 9}));
  part.attributes = {{"axis", int64_t(1)}};
  CHECK(gives(part, {3, 3}, {20, 2, 10, 4, 30, 40, 7, 8, 9}));
  part.attributes = {{"axis", int64_t(0)}, {"reduction", std::string("add")}};
  part.indices = {2, -3, 1, 1};
  CHECK(gives(part, {3, 3}, {1, 22, 3, 34, 45, 6, 17, 8, 9}));
  part.attributes[1].value = std::string("mul");
  CHECK(gives(part, {3, 3}, {1, 40, 3, 120, 200, 6, 70, 8, 9}));
  // What has no update stays as it is.
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(gives({"ScatterElements", {2, 2}, {infinity, -infinity, 3, infinity}, {1, 1}, {1}, {1, 1}, {7}, {{"axis", int64_t(1)}}}, {2, 2},
              {infinity, 7, 3, infinity}));
  // An update takes the place of what was there, whatever that was.
  CHECK(gives({"ScatterND", {2}, {5, -std::numeric_limits<double>::infinity()}, {1, 1}, {1}, {1}, {7}, {}}, {2}, {5, 7}));
  added.attributes[1].value = std::string("mean");
  CHECK_THAT(importError(modelOf(added, true)), contains("attribute \"reduction\" is \"mean\"; use none, add, mul, max or min"));
  added.attributes[1].value = std::string("max");
  added.opset = 16; // max and min are since opset 18
  CHECK_THAT(importError(modelOf(added, true)), contains("attribute \"reduction\" is \"max\"; use none, add or mul"));
  row.updateShape = {1, 3};
  CHECK_THAT(importError(modelOf(row, true)), contains("updates of [1, 3] of f32 but the indices take [1, 2] of f32"));
}

// Several updates of one element all count, wherever they stand; the numbers are ONNX Runtime's.
TEST_CASE("onnx ScatterElements and ScatterND that combine", "[frontend]") {
  const std::vector<double> six = {1, -2, 3, 4, 5, 6};
  auto check = [&](const std::string &reduction, std::vector<double> row, std::vector<double> column, std::vector<double> rows,
                   std::vector<double> tuples) {
    INFO(reduction);
    Attribute how{"reduction", reduction};
    CHECK(gives({"ScatterElements", {2, 3}, six, {2, 2}, {1, 0, 1, 1}, {2, 2}, {2, -3, 5, 7}, {{"axis", int64_t(1)}, how}}, {2, 3}, row));
    CHECK(
        gives({"ScatterElements", {3, 3}, {1, -2, 3, 4, 5, 6, 7, 8, 9}, {2, 3}, {2, 0, 2, 2, 0, 0}, {2, 3}, {2, -3, 10, -4, 7, 0.5}, {how}},
              {3, 3}, column));
    CHECK(gives({"ScatterND", {3, 2}, {1, 2, 3, 4, 5, 6}, {4, 1}, {2, 0, 2, -1}, {4, 2}, {10, -10, 2, 3, 3, 3, -2, 0.5}, {how}}, {3, 2},
                rows));
    CHECK(gives({"ScatterND", {3, 2}, {1, 2, 3, 4, 5, 6}, {3, 1, 2}, {0, 1, 0, 1, 2, 0}, {3, 1}, {-3, 4, 2}, {how}}, {3, 2}, tuples));
  };
  check("mul", {-3, -4, 3, 4, 175, 6}, {1, 42, 1.5, 4, 5, 6, -56, 8, 90}, {2, 6, 3, 4, -300, -90}, {1, -24, 3, 4, 10, 6});
  check("max", {1, 2, 3, 4, 7, 6}, {1, 7, 3, 4, 5, 6, 7, 8, 10}, {2, 3, 3, 4, 10, 6}, {1, 4, 3, 4, 5, 6});
  check("min", {-3, -2, 3, 4, 5, 6}, {1, -3, 0.5, 4, 5, 6, -4, 8, 9}, {1, 2, 3, 4, -2, -10}, {1, -3, 3, 4, 2, 6});
  // All updates are of one element, and less than what was there.
  CHECK(gives({"ScatterND", {2}, {5, 6}, {2, 1}, {0, 0}, {2}, {1, 2}, {{"reduction", std::string("max")}}}, {2}, {5, 6}));
  CHECK(gives({"ScatterND", {2}, {-5, 6}, {2, 1}, {0, 0}, {2}, {1, 2}, {{"reduction", std::string("min")}}}, {2}, {-5, 6}));
  // No update, and one that is out of range.
  CHECK(gives({"ScatterND", {2}, {5, 6}, {0, 1}, {}, {0}, {}, {{"reduction", std::string("mul")}}}, {2}, {5, 6}));
  Case beyond = {"ScatterElements", {3}, {1, 2, 3}, {3}, {3, -4, 1}, {3}, {7, 8, 9}, {{"reduction", std::string("mul")}}};
  CHECK(holds(evaluate(modelOf(beyond, false), {f32({3}, beyond.data), i64({3}, beyond.indices), f32({3}, beyond.updates)})[0], {3},
              {1, 18, 3}));
  CHECK_THAT(importError(modelOf(beyond, true)), contains("index 3 is not in [-3, 3)"));
  OnnxModel bools = OnnxModel(18).input("x", {2}, TensorProto::BOOL).ints("i", {0}).input("u", {1}, TensorProto::BOOL);
  bools.node("ScatterElements", {"x", "i", "u"}, {"y"}, {{"reduction", std::string("max")}}).output("y");
  CHECK_THAT(importError(bools), contains("input 0 is a tensor of bool, which reduction \"max\" does not take"));
}

// By the reference evaluator of ONNX 1.23.
TEST_CASE("onnx TensorScatter", "[frontend]") {
  auto scatter = [](std::vector<int64_t> cache, std::vector<int64_t> update, std::vector<double> indices,
                    std::vector<Attribute> attributes) {
    OnnxModel model = OnnxModel(24).input("x", {cache.begin(), cache.end()}).input("u", {update.begin(), update.end()});
    std::vector<std::string> inputs = {"x", "u"};
    std::vector<double> x(llvm::product_of(cache)), u(llvm::product_of(update));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<double>(i);
    }
    for (size_t i = 0; i < u.size(); ++i) {
      u[i] = 100 + static_cast<double>(i);
    }
    std::vector<ashlar::reference::Tensor> values = {f32(cache, x), f32(update, u)};
    if (!indices.empty()) {
      inputs.push_back("w");
      model.input("w", {cache[0]}, TensorProto::INT64);
      values.push_back(i64({cache[0]}, indices));
    }
    return evaluate(model.node("TensorScatter", inputs, {"y"}, std::move(attributes)).output("y"), values)[0];
  };
  Attribute circular{"mode", std::string("circular")};
  CHECK(holds(scatter({2, 4, 2}, {2, 2, 2}, {1, 2}, {}), {2, 4, 2}, {0, 1, 100, 101, 102, 103, 6, 7, 8, 9, 10, 11, 104, 105, 106, 107}));
  CHECK(holds(scatter({2, 4, 2}, {2, 2, 2}, {3, 0}, {circular}), {2, 4, 2},
              {102, 103, 2, 3, 4, 5, 100, 101, 104, 105, 106, 107, 12, 13, 14, 15}));
  CHECK(holds(scatter({2, 4, 2}, {2, 2, 2}, {}, {}), {2, 4, 2}, {100, 101, 102, 103, 4, 5, 6, 7, 104, 105, 106, 107, 12, 13, 14, 15}));
  CHECK(holds(scatter({2, 2, 3}, {2, 2, 1}, {2, 0}, {{"axis", int64_t(-1)}}), {2, 2, 3}, {0, 1, 100, 3, 4, 101, 102, 7, 8, 103, 10, 11}));
  CHECK(holds(scatter({2, 3, 1, 2}, {2, 2, 1, 2}, {1, 5}, {circular, {"axis", int64_t(1)}}), {2, 3, 1, 2},
              {0, 1, 100, 101, 102, 103, 106, 107, 8, 9, 104, 105}));
  // What would go beyond the end is dropped.
  CHECK(holds(scatter({1, 3, 1}, {1, 2, 1}, {2}, {}), {1, 3, 1}, {0, 1, 100}));
  auto error = [](std::vector<Dim> update, std::vector<Attribute> attributes, std::vector<Dim> indices) {
    OnnxModel model = OnnxModel(24).input("x", {2, 4, 2}).input("u", std::move(update)).input("w", std::move(indices), TensorProto::INT64);
    return importError(model.node("TensorScatter", {"x", "u", "w"}, {"y"}, std::move(attributes)).output("y"));
  };
  CHECK_THAT(error({2, 5, 2}, {}, {2}),
             contains("update of [2, 5, 2] of f32 does not fit into past_cache of [2, 4, 2] of f32 along axis 1"));
  CHECK_THAT(error({1, 4, 2}, {{"axis", int64_t(0)}}, {2}), contains("along axis 0, which is not the batch"));
  CHECK_THAT(error({2, 2, 2}, {}, {3}), contains("write_indices are [3] of i64, not [2] of i64"));
  CHECK_THAT(error({2, 2, 2}, {{"mode", std::string("ring")}}, {2}), contains("attribute \"mode\" is \"ring\"; use linear or circular"));
}

TEST_CASE("onnx Compress", "[frontend]") {
  auto compress = [](std::vector<double> condition, std::vector<Attribute> attributes, int64_t opset = 11) {
    OnnxModel model =
        OnnxModel(opset).input("x", {2, 3}).initializer("c", TensorProto::BOOL, {static_cast<int64_t>(condition.size())}, condition);
    return model.node("Compress", {"x", "c"}, {"y"}, std::move(attributes)).output("y");
  };
  auto run = [](const OnnxModel &model) { return evaluate(model, {f32({2, 3}, {1, 2, 3, 4, 5, 6})})[0]; };
  CHECK(holds(run(compress({1, 0, 1}, {{"axis", int64_t(1)}})), {2, 2}, {1, 3, 4, 6}));
  CHECK(holds(run(compress({0, 1}, {{"axis", int64_t(0)}})), {1, 3}, {4, 5, 6}));
  CHECK(holds(run(compress({0, 1, 0, 1, 1}, {}, 9)), {3}, {2, 4, 5}));
  CHECK(holds(run(compress({0}, {{"axis", int64_t(-1)}})), {2, 0}, {}));
  CHECK_THAT(importError(compress({1, 1, 1}, {{"axis", int64_t(0)}})), contains("condition is [3] of bool, not at most 2 bools"));
  OnnxModel open = OnnxModel(11).input("x", {2}).input("c", {3}, TensorProto::BOOL).node("Compress", {"x", "c"}, {"y"}).output("y");
  CHECK_THAT(importError(open), contains("condition is [3] of bool, not at most 2 bools"));
}

} // namespace ashlar::test::indexing_test
