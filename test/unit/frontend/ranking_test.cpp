// SPDX-License-Identifier: Apache-2.0
//
// ArgMax, ArgMin, Hardmax and TopK against NumPy's argmax and a sort.

#include "test/unit/frontend/onnx_gradient.h"
#include "test/unit/frontend/recorded.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ashlar::test::ranking_test {

using onnx::TensorProto;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
using Numbers = std::vector<double>;

OnnxModel node(const std::string &op, std::vector<Dim> shape, std::vector<Attribute> attributes, int64_t opset = 13,
               int32_t type = TensorProto::FLOAT) {
  return OnnxModel(opset).input("x", std::move(shape), type).node(op, {"x"}, {"y"}, std::move(attributes)).output("y");
}

// The node on one row.
ashlar::reference::Tensor onRow(const std::string &op, const Numbers &x, std::vector<Attribute> attributes = {}) {
  int64_t size = static_cast<int64_t>(x.size());
  attributes.push_back({"axis", int64_t(-1)});
  return evaluate(node(op, {1, size}, std::move(attributes)), {f32({1, size}, x)})[0];
}

// A column of x (rows, size, columns) after the other: the indices of the k first elements of each, by a sort. A NaN is the largest.
Numbers sorted(const Numbers &x, int64_t rows, int64_t size, int64_t columns, int64_t k, bool largest) {
  auto isLess = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  Numbers result(rows * k * columns);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      auto at = [&](int64_t i) { return x[(row * size + i) * columns + column]; };
      std::vector<int64_t> order(size);
      for (int64_t i = 0; i < size; ++i) {
        order[i] = i;
      }
      std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        double first = largest ? at(j) : at(i), second = largest ? at(i) : at(j);
        return isLess(first, second) || (!isLess(second, first) && i < j);
      });
      for (int64_t i = 0; i < k; ++i) {
        result[(row * k + i) * columns + column] = static_cast<double>(order[i]);
      }
    }
  }
  return result;
}

OnnxModel topK(std::vector<Dim> shape, int64_t k, std::vector<Attribute> attributes, int64_t opset = 11,
               int32_t type = TensorProto::FLOAT) {
  OnnxModel model = OnnxModel(opset).input("x", std::move(shape), type);
  std::vector<std::string> inputs = {"x"};
  if (opset < 10) {
    attributes.push_back({"k", k});
  } else {
    model.ints("k", {static_cast<double>(k)});
    inputs.push_back("k");
  }
  return model.node("TopK", inputs, {"values", "indices"}, std::move(attributes)).output("values").output("indices");
}

// Numbers with many equal ones, infinities and NaN.
Numbers mixed(int64_t count) {
  Numbers values;
  for (int64_t i = 0; i < count; ++i) {
    int64_t drawn = i * 29 % 23;
    values.push_back(drawn == 3 ? kNaN : drawn == 4 ? kInfinity : drawn == 5 ? -kInfinity : static_cast<double>(drawn / 3));
  }
  return values;
}

} // namespace

TEST_CASE("onnx ArgMax and ArgMin", "[frontend][ranking]") {
  auto x = [] { return f32({2, 3, 2}, {1, 9, 5, 2, 5, 9, -1, 4, -7, 4, -7, 3}); };
  for (int64_t opset : {7, 11, 12, 28}) {
    auto run = [&](const char *op, std::vector<Attribute> attributes) {
      return evaluate(node(op, {2, 3, 2}, std::move(attributes), opset), {x()})[0];
    };
    CHECK(holds(run("ArgMax", {}), {1, 3, 2}, {0, 0, 0, 1, 0, 0}));
    CHECK(holds(run("ArgMax", {{"axis", int64_t(1)}}), {2, 1, 2}, {1, 0, 0, 0}));
    CHECK(holds(run("ArgMin", {{"axis", int64_t(-2)}, {"keepdims", int64_t(0)}}), {2, 2}, {0, 1, 1, 2}));
  }
  auto last = [&](const char *op) {
    return evaluate(node(op, {2, 3, 2}, {{"axis", int64_t(1)}, {"select_last_index", int64_t(1)}}), {x()})[0];
  };
  CHECK(holds(last("ArgMax"), {2, 1, 2}, {2, 2, 0, 1}));
  CHECK(holds(last("ArgMin"), {2, 1, 2}, {0, 1, 2, 2}));
  CHECK(last("ArgMin").getType().getElementType().isInteger(64));
  CHECK(holds(evaluate(node("ArgMin", {3}, {}, 13, TensorProto::INT64), {i64({3}, {5, -3, -3})})[0], {1}, {1}));
  CHECK_THAT(importError(node("ArgMax", {2, 0}, {{"axis", int64_t(1)}})), contains("axis 1 of [2, 0] of f32 has no elements"));
  CHECK_THAT(importError(node("ArgMax", {2}, {{"axis", int64_t(1)}})), contains("axis 1 is not in [-1, 1)"));
}

TEST_CASE("onnx ArgMax and ArgMin of special values", "[frontend][ranking]") {
  for (const char *op : {"ArgMax", "ArgMin"}) {
    INFO(op);
    CHECK(holds(onRow(op, {1, kNaN, kInfinity, kNaN, -kInfinity}), {1, 1}, {1})); // numpy.argmax, numpy.argmin
    CHECK(holds(onRow(op, {1, kNaN, kInfinity, kNaN, -kInfinity}, {{"select_last_index", int64_t(1)}}), {1, 1}, {3}));
    CHECK(holds(onRow(op, {-0.0, 0.0}), {1, 1}, {0}));
    CHECK(holds(onRow(op, {7}), {1, 1}, {0}));
  }
  CHECK(holds(onRow("ArgMax", {-kInfinity, -kInfinity}), {1, 1}, {0}));
  CHECK(holds(onRow("ArgMin", {kInfinity, kInfinity}), {1, 1}, {0}));
}

TEST_CASE("onnx Hardmax", "[frontend][ranking]") {
  auto run = [](int64_t opset, std::vector<Attribute> attributes) {
    return evaluate(node("Hardmax", {2, 2, 2}, std::move(attributes), opset), {f32({2, 2, 2}, {1, 3, 3, 0, 2, 2, 5, 5})})[0];
  };
  CHECK(holds(run(11, {}), {2, 2, 2}, {0, 1, 0, 0, 0, 0, 1, 0})); // the last two dims as one
  CHECK(holds(run(12, {{"axis", int64_t(0)}}), {2, 2, 2}, {0, 0, 0, 0, 0, 0, 1, 0}));
  CHECK(holds(run(13, {}), {2, 2, 2}, {0, 1, 1, 0, 1, 0, 1, 0}));
  CHECK(holds(run(13, {{"axis", int64_t(0)}}), {2, 2, 2}, {0, 1, 0, 0, 1, 0, 1, 1}));
  CHECK(holds(onRow("Hardmax", {1, kNaN, 5}), {1, 3}, {0, 1, 0}));
  CHECK(holds(evaluate(node("Hardmax", {2, 0}, {}), {f32({2, 0}, {})})[0], {2, 0}, {}));
}

// Few of many are taken in rounds, others by their ranks.
TEST_CASE("onnx TopK", "[frontend][ranking]") {
  struct Sizes {
    int64_t rows, size, columns, k;
    bool inRounds;
  };
  for (Sizes s :
       {Sizes{2, 5, 3, 2, false}, Sizes{2, 5, 3, 5, false}, Sizes{3, 24, 1, 3, true}, Sizes{2, 17, 2, 2, true}, Sizes{1, 1, 2, 1, false}}) {
    for (bool largest : {true, false}) {
      INFO(s.k << " of " << s.size << (largest ? ", largest" : ", smallest"));
      Numbers x = mixed(s.rows * s.size * s.columns), indices = sorted(x, s.rows, s.size, s.columns, s.k, largest), values;
      for (int64_t i = 0; i < static_cast<int64_t>(indices.size()); ++i) {
        values.push_back(x[(i / (s.k * s.columns) * s.size + static_cast<int64_t>(indices[i])) * s.columns + i % s.columns]);
      }
      OnnxModel model = topK({s.rows, s.size, s.columns}, s.k, {{"axis", int64_t(1)}, {"largest", int64_t(largest)}});
      auto results = evaluate(model, {f32({s.rows, s.size, s.columns}, x)});
      CHECK(holds(results[0], {s.rows, s.k, s.columns}, values));
      CHECK(holds(results[1], {s.rows, s.k, s.columns}, indices));
      CHECK(results[1].getType().getElementType().isInteger(64));
      std::string pairs = "x" + std::to_string(s.size) + "x" + std::to_string(s.size) + "x";
      CHECK((print(*import(model)).find(pairs) == std::string::npos) == s.inRounds);
    }
  }
}

TEST_CASE("onnx TopK of all opsets", "[frontend][ranking]") {
  for (int64_t opset : {7, 9, 10, 11, 28}) {
    auto results = evaluate(topK({2, 3}, 2, {}, opset), {f32({2, 3}, {1, 3, 2, 7, 7, 9})});
    CHECK(holds(results[0], {2, 2}, {3, 2, 9, 7}));
    CHECK(holds(results[1], {2, 2}, {1, 2, 2, 0}));
  }
  auto unsorted = evaluate(topK({3}, 2, {{"sorted", int64_t(0)}, {"largest", int64_t(0)}}), {f32({3}, {1, 3, 2})});
  CHECK(holds(unsorted[1], {2}, {0, 2}));
  for (int64_t size : {4, 16}) { // by rank and in rounds, of the lowest integers
    Numbers x(size, -0x1p63);
    x[2] = 5;
    auto ints = evaluate(topK({size}, 2, {}, 11, TensorProto::INT64), {i64({size}, x)});
    CHECK(holds(ints[1], {2}, {2, 0}));
    CHECK(holds(ints[0], {2}, {5, -0x1p63}));
  }
  auto none = evaluate(topK({2, 3}, 0, {{"axis", int64_t(0)}}), {f32({2, 3}, {1, 3, 2, 7, 7, 9})});
  CHECK(holds(none[0], {0, 3}, {}));
  CHECK(holds(none[1], {0, 3}, {}));
  CHECK_THAT(importError(topK({2, 3}, 4, {})),
             contains("k is 4 along axis 1 of [2, 3] of f32; it is one number from 0 to the size of the axis"));
  CHECK_THAT(importError(topK({2, 3}, -1, {}, 7)), contains("k is -1 along"));
  OnnxModel two = OnnxModel(11).input("x", {3}).ints("k", {1, 2}).node("TopK", {"x", "k"}, {"v", "i"}).output("v");
  CHECK_THAT(importError(two), contains("k is 2 numbers along"));
  OnnxModel open = OnnxModel(11).input("x", {3}).input("k", {1}, TensorProto::INT64).node("TopK", {"x", "k"}, {"v", "i"}).output("v");
  CHECK_THAT(importError(open), contains("\"K\""));
}

// To the elements that are taken, and to no other.
TEST_CASE("onnx TopK: gradients", "[frontend][ranking]") {
  for (int64_t size : {6, 16}) {
    Numbers x;
    for (int64_t i = 0; i < 2 * size; ++i) {
      x.push_back(static_cast<double>(i * 37 % 101) / 8);
    }
    auto input = makeTensor(mlir::Float64Type::get(&context()), {2, size}, x);
    CHECK(gradientDifference(topK({2, size}, 2, {}, 11, TensorProto::DOUBLE), {input}) == "");
  }
  auto gradient = gradientOf(topK({4}, 2, {}), {f32({4}, {kInfinity, kNaN, 1, kInfinity})}, f32({2}, {3, 5}));
  CHECK(holds(gradient, {4}, {5, 3, 0, 0}));
}

} // namespace ashlar::test::ranking_test
