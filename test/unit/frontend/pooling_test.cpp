// SPDX-License-Identifier: Apache-2.0
//
// ONNX pooling and LRN against recorded numbers; LRN against its formula in NumPy, since no implementation takes all of its sizes.

#include "test/unit/frontend/recorded.h"

#include <catch2/catch.hpp>

namespace ashlar::test::pooling_test {

using onnx::TensorProto;

namespace {

using Int = int64_t;
using Ints = std::vector<int64_t>;
using Text = std::string;

const std::vector<Recorded> kMaxPools = {
    {"MaxPool", 8, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}}, {2, 1, 7}, {}, {2, 1, 3}, {3, 3, 4.25, 5.5, 2.125, 3.375}},
    {"MaxPool",
     8,
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}},
     {1, 2, 5, 6},
     {},
     {1, 2, 3, 3},
     {0.875, 5.5, 4.25, 5.875, 5.875, 4.625, 5.875, 5.875, 5, 6.25, 5.375, 4.125, 5.75, 5.75, 4.5, 5.75, 5.75, 4.875}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{2, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", Int(1)}},
     {1, 1, 5, 6},
     {},
     {1, 1, 3, 3},
     {5.5, 5.5, 4.25, 5.875, 4.625, 4.625, 3.75, 5, 1.625}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{4, 4}}, {"pads", Ints{1, 1, 1, 1}}, {"ceil_mode", Int(1)}},
     {1, 1, 6, 7},
     {},
     {1, 1, 2, 2},
     {5.5, 4.25, 4.125, 5.375}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 3}}, {"pads", Ints{0, 1, 1, 0}}},
     {1, 1, 5, 6},
     {},
     {1, 1, 4, 4},
     {3, 0, 4.625, 4.25, 5.5, 2.5, 5.875, 5.5, 0.375, 5, 4.625, 1.625, -2.125, 2.5, 5.875, -0.875}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 2}}, {"auto_pad", Text("SAME_UPPER")}},
     {1, 1, 5, 6},
     {},
     {1, 1, 3, 3},
     {0.875, 5.5, 4.25, 5.875, 5.5, 4.625, 5.875, 5, 1.625}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{2, 4}}, {"strides", Ints{1, 2}}, {"auto_pad", Text("SAME_LOWER")}},
     {1, 1, 4, 6},
     {},
     {1, 1, 4, 3},
     {3, 3, 4.25, 5.5, 5.5, 4.25, 5.5, 5.5, 4.625, 5.875, 5.875, 4.625}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"auto_pad", Text("VALID")}},
     {1, 1, 5, 5},
     {},
     {1, 1, 2, 2},
     {4.25, 5.5, 4.625, 3.375}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{2, 2, 2}}, {"strides", Ints{1, 2, 2}}, {"pads", Ints{0, 0, 1, 0, 0, 1}}},
     {1, 1, 3, 4, 4},
     {},
     {1, 1, 2, 2, 3},
     {4.625, 4.25, 5.875, 5.5, 6.25, 5, 4.625, 5.375, 5.875, 3.75, 6.25, 5}},
};

const std::vector<Recorded> kMaxPoolIndices = {
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}},
     {1, 2, 5, 6},
     {},
     {1, 2, 3, 3},
     {7, 8, 5, 19, 19, 16, 19, 19, 27, 30, 38, 35, 49, 49, 46, 49, 49, 57}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{2, 3}}, {"strides", Ints{2, 2}}, {"dilations", Ints{1, 2}}, {"storage_order", Int(1)}},
     {2, 1, 5, 6},
     {},
     {2, 1, 2, 1},
     {11, 22, 30, 52}},
    {"MaxPool",
     12,
     {{"kernel_shape", Ints{2, 1, 2}}, {"strides", Ints{1, 2, 2}}, {"pads", Ints{0, 0, 1, 0, 0, 0}}},
     {1, 2, 2, 3, 3},
     {},
     {1, 2, 1, 2, 2},
     {9, 2, 15, 8, 27, 19, 24, 35}},
};

const std::vector<Recorded> kAveragePools = {
    {"AveragePool",
     7,
     {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}},
     {2, 1, 6},
     {},
     {2, 1, 3},
     {-3.9375, -1.2083334, -0.375, -1.4375, 1.2916666, -2.0833333}},
    {"AveragePool",
     7,
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}},
     {1, 2, 5, 4},
     {},
     {1, 2, 3, 2},
     {-1, -0.375, 1.5, -0.68055558, 0.84375, 0.41666666, -0.03125, -0.45833334, -0.6875, 0.6388889, -1.34375, 0.33333334}},
    {"AveragePool",
     7,
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"count_include_pad", Int(1)}},
     {1, 1, 5, 4},
     {},
     {1, 1, 3, 2},
     {-0.44444445, -0.25, 1, -0.68055558, 0.375, 0.27777779}},
    {"AveragePool",
     11,
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", Int(1)}},
     {1, 1, 6, 6},
     {},
     {1, 1, 3, 3},
     {-0.52777779, 0.30555555, 0.22916667, 0.2638889, -0.30555555, -1.0833334, 1.2083334, -0.0625, 0.5625}},
    {"AveragePool",
     19,
     {{"kernel_shape", Ints{3, 3}},
      {"strides", Ints{2, 2}},
      {"pads", Ints{1, 1, 1, 1}},
      {"ceil_mode", Int(1)},
      {"count_include_pad", Int(1)}},
     {1, 1, 6, 6},
     {},
     {1, 1, 4, 4},
     {-1.1944444, 0.027777778, -0.81944442, -0.27083334, 0.70833331, 0.9861111, -0.9861111, -1.6875, 1.2361112, 0.375, -0.19444445, 0.8125,
      0.75, -0.66666669, -0.25, 1.03125}},
    {"AveragePool",
     19,
     {{"kernel_shape", Ints{3, 2}},
      {"strides", Ints{4, 3}},
      {"pads", Ints{1, 0, 1, 0}},
      {"ceil_mode", Int(1)},
      {"count_include_pad", Int(0)}},
     {1, 1, 6, 7},
     {},
     {1, 1, 2, 3},
     {-0.375, -2.28125, -0.1875, -0.6875, 0.5625, -0.5}},
    {"AveragePool",
     19,
     {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 1}}},
     {1, 1, 5, 5},
     {},
     {1, 1, 4, 4},
     {2.5625, 0.875, -0.8125, 5.5, -0.59375, -2.28125, -0.8125, -0.8125, 0.4375, 1.90625, 0.21875, 3.375, -1.6875, -0.21875, -1.90625,
      1.25}},
    {"AveragePool",
     19,
     {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 1}}, {"count_include_pad", Int(1)}},
     {1, 1, 5, 5},
     {},
     {1, 1, 4, 4},
     {1.28125, 0.4375, -0.40625, 1.375, -0.59375, -2.28125, -0.8125, -0.40625, 0.4375, 1.90625, 0.21875, 1.6875, -1.6875, -0.21875,
      -1.90625, 0.625}},
    {"AveragePool",
     11,
     {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 2}}, {"auto_pad", Text("SAME_UPPER")}},
     {1, 1, 5, 6},
     {},
     {1, 1, 3, 3},
     {-2.6875, 0.25, 0.03125, 1.0625, -0.20833333, -1.4791666, 1.65625, 1.4375, -1.9375}},
    {"AveragePool",
     11,
     {{"kernel_shape", Ints{2, 2}}, {"auto_pad", Text("SAME_LOWER")}},
     {1, 1, 3, 3},
     {},
     {1, 1, 3, 3},
     {-6.25, -3.9375, 0.6875, -5.625, -3.3125, 1.3125, -4.375, -2.0625, 2.5625}},
    {"AveragePool",
     11,
     {{"kernel_shape", Ints{2, 2, 2}}, {"strides", Ints{2, 2, 2}}},
     {1, 1, 4, 2, 4},
     {},
     {1, 1, 2, 1, 2},
     {0.140625, -1.65625, -0.03125, 1.328125}},
};

const std::vector<Recorded> kOthers = {
    {"LpPool",
     11,
     {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
     {1, 1, 4, 6},
     {},
     {1, 1, 2, 3},
     {7.5187268, 8.3964281, 7.5653405, 7.0022316, 5.6706481, 7.9872947}},
    {"LpPool",
     11,
     {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}, {"p", Int(1)}},
     {1, 2, 5},
     {},
     {1, 2, 5},
     {7.875, 10.875, 9.625, 8.375, 5.375, 8, 8.875, 10.125, 8.875, 8}},
    {"LpPool",
     18,
     {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"dilations", Ints{1, 2}}, {"p", Int(3)}, {"ceil_mode", Int(1)}},
     {1, 1, 4, 6},
     {},
     {1, 1, 2, 3},
     {7.885076, 5.877357, 2.1288857, 4.8264971, 7.2037663, 6.4256353}},
    {"GlobalMaxPool", 7, {}, {2, 2, 3, 2}, {}, {2, 2, 1, 1}, {4.25, 5.5, 4.625, 5.875}},
    {"GlobalAveragePool", 7, {}, {2, 2, 3, 2}, {}, {2, 2, 1, 1}, {-1, -0.60416669, -0.20833333, 0.1875}},
    {"GlobalLpPool", 7, {}, {2, 2, 3, 2}, {}, {2, 2, 1, 1}, {9.6905241, 9.5057545, 8.1929846, 8.8237963}},
    {"GlobalLpPool", 7, {{"p", Int(1)}}, {1, 2, 5}, {}, {1, 2, 1}, {16.25, 16.875}},
    {"LRN",
     7,
     {{"size", Int(3)}, {"alpha", 0.5f}, {"beta", 0.75f}, {"bias", 2.0f}},
     {1, 5, 2, 2},
     {},
     {1, 5, 2, 2},
     {-1.2517601, -0.45553826, 0.79818311,  -1.2582326, -0.053022951, 1.0449503, -0.91107325, 0.13531697,  1.2351901,  -0.52801143,
      0.42088715, -1.2491212,  -0.20884407, 0.79808869, -1.1259916,   0,         1.2334191,   -0.90339634, 0.33335651, 1.2645097}},
    {"LRN",
     13,
     {{"size", Int(4)}, {"alpha", 1.5f}, {"bias", 1.5f}},
     {2, 5, 2},
     {},
     {2, 5, 2},
     {-0.67155903, -0.18115159, 0.26954519,  -0.55103558, -0.037499249, 0.4447329, -0.42610485, 0.14581755,  0.62631758, -0.86279913,
      0.33375353,  -0.6529324,  -0.13305924, 0.32149304,  -0.51401061,  0,         0.52642079,  -0.37508882, 0.22051073, 0.6529324}},
};

Recorded pool(const std::string &op, std::vector<Attribute> attributes, std::vector<int64_t> shape) {
  return {op, 19, std::move(attributes), std::move(shape), {}, {}, {}};
}

std::string errorOf(const Recorded &row) {
  return importError(modelOf(row));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

} // namespace

TEST_CASE("onnx MaxPool", "[frontend]") {
  checkRecorded(kMaxPools);
}

TEST_CASE("onnx MaxPool: indices", "[frontend]") {
  checkRecorded(kMaxPoolIndices, /*number=*/1);
}

TEST_CASE("onnx AveragePool", "[frontend]") {
  checkRecorded(kAveragePools);
}

TEST_CASE("onnx LpPool, global pooling, LRN", "[frontend]") {
  checkRecorded(kOthers);
}

// A NaN wins, an infinity is a number like others, and padding is below -infinity.
TEST_CASE("onnx MaxPool of special values", "[frontend]") {
  OnnxModel model = OnnxModel(12).input("x", {1, 1, 6});
  model.node("MaxPool", {"x"}, {"y", "i"}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}}).output("y").output("i");
  auto results = evaluate(model, {f32({1, 1, 6}, {-kInfinity, -kInfinity, 1, kNan, kInfinity, 2})});
  CHECK(results[0].getFloat(0) == -kInfinity);
  CHECK(std::isnan(results[0].getFloat(1)));
  CHECK(std::isnan(results[0].getFloat(2)));
  CHECK(holds(results[1], {1, 1, 3}, {0, 3, 3}));
}

// The numbers of ONNX Runtime 1.32. A window that holds padding only gives the least number that there is.
TEST_CASE("onnx MaxPool of bytes", "[frontend]") {
  for (auto [type, sign, x, y] :
       std::initializer_list<std::tuple<int32_t, mlir::IntegerType::SignednessSemantics, std::vector<double>, std::vector<double>>>{
           {TensorProto::INT8, mlir::IntegerType::Signless, {-128, -5, -7, 100, -1, 127}, {-5, 100, 127}},
           {TensorProto::UINT8, mlir::IntegerType::Unsigned, {0, 5, 7, 128, 254, 255}, {5, 128, 255}}}) {
    OnnxModel model = OnnxModel(12).input("x", {1, 1, 6}, type);
    model.node("MaxPool", {"x"}, {"y", "i"}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 0}}})
        .output("y")
        .output("i");
    auto element = mlir::IntegerType::get(&context(), 8, sign);
    auto results = evaluate(model, {makeTensor(element, {1, 1, 6}, x)});
    CHECK(results[0].getType().getElementType() == element);
    CHECK(holds(results[0], {1, 1, 3}, y));
    CHECK(holds(results[1], {1, 1, 3}, {1, 3, 5}));
    OnnxModel padded = OnnxModel(12).input("x", {1, 1, 1}, type);
    padded.node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", Ints{1}}, {"pads", Ints{1, 0}}}).output("y");
    CHECK(holds(evaluate(padded, {makeTensor(element, {1, 1, 1}, {7})})[0], {1, 1, 2}, {x[0], 7}));
  }
  for (int32_t type : {TensorProto::INT32, TensorProto::INT16, TensorProto::BOOL}) {
    OnnxModel model = OnnxModel(12).input("x", {1, 1, 6}, type);
    CHECK_THAT(importError(model.node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", Ints{3}}}).output("y")),
               contains(", which the op does not take; its inputs are floats, int8 or uint8"));
  }
}

TEST_CASE("onnx pooling: errors", "[frontend]") {
  CHECK_THAT(errorOf(pool("MaxPool", {{"kernel_shape", Ints{7}}, {"pads", Ints{1, 1}}}, {1, 1, 4})),
             contains("the kernel spans 7 elements in spatial dim 0, but the input has 4 there and padding of 1 and 1"));
  CHECK_THAT(errorOf(pool("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1}}}, {1, 1, 4, 4})),
             contains("attribute \"pads\" has 2 numbers, [1, 1], but 2 spatial dims need 4"));
  CHECK_THAT(errorOf(pool("MaxPool", {{"kernel_shape", Ints{2}}, {"auto_pad", Text("SAME")}}, {1, 1, 4})),
             contains("attribute \"auto_pad\" is \"SAME\"; use NOTSET, SAME_UPPER, SAME_LOWER or VALID"));
  CHECK_THAT(errorOf(pool("MaxPool", {}, {1, 1, 4})), contains("has no attribute \"kernel_shape\""));
  CHECK_THAT(errorOf(pool("MaxPool", {{"kernel_shape", Ints{2}}, {"storage_order", Int(2)}}, {1, 1, 4})),
             contains("attribute \"storage_order\" is 2; use 0, row major, or 1, column major"));
  CHECK_THAT(errorOf(pool("MaxPool", {{"kernel_shape", Ints{2}}}, {4, 4})),
             contains("input 0 is [4, 4] of f32; pooling needs a batch, channels and at least one spatial dim"));
  CHECK_THAT(errorOf(pool("AveragePool", {{"kernel_shape", Ints{2}}, {"pads", Ints{2, 0}}}, {1, 1, 4})),
             contains("the window at position 0 of spatial dim 0 holds padding only"));
  CHECK_THAT(errorOf(pool("LpPool", {{"kernel_shape", Ints{2}}, {"p", Int(0)}}, {1, 1, 4})), contains("attribute \"p\" is 0"));
  CHECK_THAT(errorOf(pool("LRN", {{"size", Int(0)}}, {1, 1, 4})), contains("attribute \"size\" is 0, not a number of channels"));
  CHECK_THAT(errorOf(pool("GlobalAveragePool", {}, {1, 2, 0})), contains("which has no elements to pool"));
}

} // namespace ashlar::test::pooling_test
