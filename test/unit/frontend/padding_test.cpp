// SPDX-License-Identifier: Apache-2.0
//
// ONNX Pad against recorded numbers.

#include "test/unit/frontend/recorded.h"

#include <catch2/catch.hpp>

namespace ashlar::test::padding_test {

using onnx::TensorProto;

namespace {

using Ints = std::vector<int64_t>;
using Text = std::string;

const std::vector<Recorded> kPads = {
    {"Pad",
     7,
     {{"pads", Ints{0, 1, 2, 0}}, {"value", 2.5f}},
     {2, 3},
     {},
     {4, 4},
     {2.5, -6.25, -1.625, 3, 2.5, -5, -0.375, 4.25, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5}},
    {"Pad",
     7,
     {{"pads", Ints{1, 1, 0, 2}}, {"mode", Text("edge")}},
     {2, 3},
     {},
     {3, 6},
     {-6.25, -6.25, -1.625, 3, 3, 3, -6.25, -6.25, -1.625, 3, 3, 3, -5, -5, -0.375, 4.25, 4.25, 4.25}},
    {"Pad", 7, {{"pads", Ints{1, 2, 1, 1}}, {"mode", Text("reflect")}}, {2, 3}, {}, {4, 6}, {4.25, -0.375, -5,    -0.375, 4.25, -0.375,
                                                                                             3,    -1.625, -6.25, -1.625, 3,    -1.625,
                                                                                             4.25, -0.375, -5,    -0.375, 4.25, -0.375,
                                                                                             3,    -1.625, -6.25, -1.625, 3,    -1.625}},
    {"Pad", 11, {}, {2, 3}, {{{0, 1, 1, 1}, 1}}, {3, 5}, {0, -6.25, -1.625, 3, 0, 0, -5, -0.375, 4.25, 0, 0, 0, 0, 0, 0}},
    {"Pad",
     13,
     {},
     {2, 3},
     {{{1, -1, 0, 2}, 1}, {{-1.5}, 0}},
     {3, 4},
     {-1.5, -1.5, -1.5, -1.5, -1.625, 3, -1.5, -1.5, -0.375, 4.25, -1.5, -1.5}},
    {"Pad",
     13,
     {{"mode", Text("reflect")}},
     {1, 1, 4, 3},
     {{{0, 0, 3, 2, 0, 0, 1, 2}, 1}},
     {1, 1, 8, 7},
     {-5.875, 2.125,  -2.5, 2.125,  -5.875, 2.125,  -2.5, 5.5, 0.875,  -3.75, 0.875,  5.5, 0.875,  -3.75,
      4.25,   -0.375, -5,   -0.375, 4.25,   -0.375, -5,   3,   -1.625, -6.25, -1.625, 3,   -1.625, -6.25,
      4.25,   -0.375, -5,   -0.375, 4.25,   -0.375, -5,   5.5, 0.875,  -3.75, 0.875,  5.5, 0.875,  -3.75,
      -5.875, 2.125,  -2.5, 2.125,  -5.875, 2.125,  -2.5, 5.5, 0.875,  -3.75, 0.875,  5.5, 0.875,  -3.75}},
    {"Pad", 13, {{"mode", Text("edge")}}, {1, 1, 2, 3}, {{{0, 0, 0, 2, 0, 0, 3, -1}, 1}}, {1, 1, 5, 4}, {-6.25, -6.25, -6.25, -1.625,
                                                                                                         -5,    -5,    -5,    -0.375,
                                                                                                         -5,    -5,    -5,    -0.375,
                                                                                                         -5,    -5,    -5,    -0.375,
                                                                                                         -5,    -5,    -5,    -0.375}},
    {"Pad",
     18,
     {{"mode", Text("constant")}},
     {2, 3},
     {{{1, 2}, 1}, {{7}, 0}, {{-1}, 1}},
     {2, 6},
     {7, -6.25, -1.625, 3, 7, 7, 7, -5, -0.375, 4.25, 7, 7}},
    {"Pad",
     18,
     {{"mode", Text("reflect")}},
     {2, 4},
     {{{2, 1}, 1}, {}, {{1}, 1}},
     {2, 7},
     {3, -1.625, -6.25, -1.625, 3, -5, 3, -3.75, 4.25, -0.375, 4.25, -3.75, 0.875, -3.75}},
    {"Pad", 19, {{"mode", Text("wrap")}}, {2, 3}, {{{1, 2, 1, 2}, 1}}, {4, 7}, {-0.375, 4.25, -5,    -0.375, 4.25, -5,    -0.375,
                                                                                -1.625, 3,    -6.25, -1.625, 3,    -6.25, -1.625,
                                                                                -0.375, 4.25, -5,    -0.375, 4.25, -5,    -0.375,
                                                                                -1.625, 3,    -6.25, -1.625, 3,    -6.25, -1.625}},
};

std::string errorOf(std::vector<int64_t> shape, std::vector<Attribute> attributes, std::vector<double> pads) {
  return importError(modelOf({"Pad", 19, std::move(attributes), std::move(shape), {{std::move(pads), 1}}, {}, {}}));
}

} // namespace

TEST_CASE("onnx Pad", "[frontend]") {
  checkRecorded(kPads);
}

TEST_CASE("onnx Pad: of bools, by a value that is computed, further than the tensor is long, by nothing", "[frontend]") {
  OnnxModel bools = OnnxModel(13).input("x", {2}, TensorProto::BOOL).ints("p", {1, 1}).initializer("v", TensorProto::BOOL, {}, {1});
  CHECK(holds(evaluate(bools.node("Pad", {"x", "p", "v"}, {"y"}).output("y"), {boolean({2}, {0, 1})})[0], {4}, {1, 0, 1, 1}));
  for (auto [mode, expected] : std::initializer_list<std::pair<const char *, std::vector<double>>>{
           {"edge", {0, 0, 0, 1, 1, 1}}, {"reflect", {1, 1, 0, 1, 1, 1}}, {"wrap", {1, 1, 0, 1, 1, 0}}}) { // as numpy.pad
    INFO(mode);
    OnnxModel moved = OnnxModel(19).input("x", {3}, TensorProto::BOOL).ints("p", {2, 1});
    moved.node("Pad", {"x", "p"}, {"y"}, {{"mode", Text(mode)}}).output("y");
    auto padded = evaluate(moved, {boolean({3}, {0, 1, 1})})[0];
    CHECK(padded.getType().getElementType().isInteger(1));
    CHECK(holds(padded, {6}, expected));
  }
  OnnxModel computed = OnnxModel(13).input("x", {2}).input("v", {1}).ints("p", {0, 1}).node("Pad", {"x", "p", "v"}, {"y"}).output("y");
  CHECK(holds(evaluate(computed, {f32({2}, {1, 2}), f32({1}, {7})})[0], {3}, {1, 2, 7}));
  OnnxModel far = OnnxModel(13).input("x", {3}).ints("p", {5, 4}).node("Pad", {"x", "p"}, {"y"}, {{"mode", Text("reflect")}}).output("y");
  CHECK(holds(evaluate(far, {f32({3}, {1, 2, 3})})[0], {12}, {2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3})); // as numpy.pad
  OnnxModel nothing = OnnxModel(13).input("x", {2}).ints("p", {0, 0}).node("Pad", {"x", "p"}, {"y"}).node("Neg", {"y"}, {"z"}).output("z");
  CHECK_THAT(print(*import(nothing)), !contains("nn.pad"));
}

TEST_CASE("onnx Pad: errors", "[frontend]") {
  CHECK_THAT(errorOf({2, 3}, {}, {1, 1}), contains("has 2 pads for 2 dims, which need 4"));
  CHECK_THAT(errorOf({2}, {{"mode", Text("mirror")}}, {1, 1}),
             contains("attribute \"mode\" is \"mirror\"; use constant, edge, reflect or wrap"));
  CHECK_THAT(errorOf({2}, {}, {-2, -1}), contains("pads of -2 and -1 take more away than the 2 elements of dim 0"));
  CHECK_THAT(errorOf({2}, {{"mode", Text("edge")}}, {-2, 1}), contains("has no element in dim 0 to pad with"));
}

} // namespace ashlar::test::padding_test
