// SPDX-License-Identifier: Apache-2.0
//
// ONNX ops that move elements, and add up those that meet, against recorded numbers.

#include "test/unit/frontend/recorded.h"

#include <catch2/catch.hpp>

#include <limits>

namespace ashlar::test::moving_test {

using onnx::TensorProto;

namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kLeast = -std::numeric_limits<int64_t>::max();

const std::vector<Recorded> kMoves = {
    {"Slice", 13, {}, {2, 3}, {{{-1}, 1}, {{-100}, 1}, {{1}, 1}, {{-1}, 1}}, {2, 3}, {3, -1.625, -6.25, 4.25, -0.375, -5}},
    {"Slice", 10, {}, {2, 3}, {{{100, 1}, 1}, {{-100, -100}, 1}, {{1, 0}, 1}, {{-2, -1}, 1}}, {2, 2}, {4.25, -5, 3, -6.25}},
    {"Slice", 13, {}, {5}, {{{3}, 1}, {{0}, 1}, {{0}, 1}, {{-2}, 1}}, {2}, {-5, -1.625}},
    {"Slice", 13, {}, {5}, {{{-100}, 1}, {{static_cast<double>(kLeast)}, 1}, {{0}, 1}, {{-1}, 1}}, {1}, {-6.25}},
    {"Slice", 13, {}, {4, 5}, {{{-1}, 1}, {{-6}, 1}, {{1}, 1}, {{-1}, 1}}, {4, 5}, {-0.375, -5,    3,    -1.625, -6.25, -2.5,  5.5,
                                                                                    0.875,  -3.75, 4.25, -4.625, 3.375, -1.25, -5.875,
                                                                                    2.125,  5.875, 1.25, -3.375, 4.625, 0}},
    {"Slice", 13, {}, {4}, {{{-1}, 1}, {{-100}, 1}, {{0}, 1}, {{-2}, 1}}, {2}, {-5, -1.625}},
    {"Slice", 13, {}, {2, 3}, {{{2}, 1}, {{2}, 1}, {{1}, 1}, {{-1}, 1}}, {2, 0}, {}},
    {"Slice",
     13,
     {},
     {2, 3},
     {{{-1}, 1}, {{static_cast<double>(kLeast)}, 1}, {{1}, 1}, {{static_cast<double>(kLeast)}, 1}},
     {2, 1},
     {3, 4.25}},
    {"Slice", 13, {}, {3, 4}, {{{2, 0}, 1}, {{0, 4}, 1}, {{0, 1}, 1}, {{-1, 2}, 1}}, {2, 2}, {5.5, 2.125, -0.375, -3.75}},
    {"Tile", 7, {}, {2, 3}, {{{2, 1}, 1}}, {4, 3}, {-6.25, -1.625, 3, -5, -0.375, 4.25, -6.25, -1.625, 3, -5, -0.375, 4.25}},
    {"Tile", 13, {}, {2, 1}, {{{1, 3}, 1}}, {2, 3}, {-6.25, -6.25, -6.25, -1.625, -1.625, -1.625}},
    {"Tile",
     13,
     {},
     {2, 2},
     {{{2, 2}, 1}},
     {4, 4},
     {-6.25, -1.625, -6.25, -1.625, 3, -5, 3, -5, -6.25, -1.625, -6.25, -1.625, 3, -5, 3, -5}},
    {"Tile", 13, {}, {2}, {{{0}, 1}}, {0}, {}},
    {"DepthToSpace",
     7,
     {{"blocksize", int64_t(2)}},
     {1, 8, 1, 2},
     {},
     {1, 2, 2, 4},
     {-6.25, -0.375, -1.625, 4.25, 5.5, -1.25, -2.5, 3.375, 3, -3.75, -5, 0.875, 2.125, -4.625, -5.875, 0}},
    {"DepthToSpace",
     13,
     {{"blocksize", int64_t(2)}, {"mode", std::string("CRD")}},
     {1, 8, 1, 2},
     {},
     {1, 2, 2, 4},
     {-6.25, 3, -1.625, -5, -0.375, -3.75, 4.25, 0.875, 5.5, 2.125, -2.5, -5.875, -1.25, -4.625, 3.375, 0}},
    {"DepthToSpace",
     11,
     {{"blocksize", int64_t(2)}, {"mode", std::string("DCR")}},
     {1, 4, 2, 1},
     {},
     {1, 1, 4, 2},
     {-6.25, 3, -0.375, -3.75, -1.625, -5, 4.25, 0.875}},
    {"SpaceToDepth",
     13,
     {{"blocksize", int64_t(2)}},
     {1, 2, 2, 4},
     {},
     {1, 8, 1, 2},
     {-6.25, 3, 5.5, 2.125, -1.625, -5, -2.5, -5.875, -0.375, -3.75, -1.25, -4.625, 4.25, 0.875, 3.375, 0}},
    {"SpaceToDepth",
     28,
     {{"blocksize", int64_t(2)}, {"mode", std::string("CRD")}},
     {1, 2, 2, 4},
     {},
     {1, 8, 1, 2},
     {-6.25, 3, -1.625, -5, -0.375, -3.75, 4.25, 0.875, 5.5, 2.125, -2.5, -5.875, -1.25, -4.625, 3.375, 0}},
    {"SpaceToDepth",
     28,
     {{"blocksize", int64_t(2)}},
     {1, 2, 2, 4},
     {},
     {1, 8, 1, 2},
     {-6.25, 3, 5.5, 2.125, -1.625, -5, -2.5, -5.875, -0.375, -3.75, -1.25, -4.625, 4.25, 0.875, 3.375, 0}},
    {"CenterCropPad", 18, {}, {4, 5}, {{{2, 2}, 1}}, {2, 2}, {-3.75, 0.875, -5.875, -1.25}},
    {"CenterCropPad", 18, {}, {2, 3}, {{{5, 4}, 1}}, {5, 4}, {0,    0, 0, 0, -6.25, -1.625, 3, 0, -5, -0.375,
                                                              4.25, 0, 0, 0, 0,     0,      0, 0, 0,  0}},
    {"CenterCropPad",
     18,
     {{"axes", Ints{-1, 0}}},
     {3, 2, 3},
     {{{4, 2}, 1}},
     {2, 2, 4},
     {-6.25, -1.625, 3, 0, -5, -0.375, 4.25, 0, -3.75, 0.875, 5.5, 0, -2.5, 2.125, -5.875, 0}},
    {"CenterCropPad", 18, {}, {2, 3}, {{{2, 3}, 1}}, {2, 3}, {-6.25, -1.625, 3, -5, -0.375, 4.25}},
    {"ReverseSequence",
     10,
     {},
     {4, 4},
     {{{4, 3, 2, 1}, 1}},
     {4, 4},
     {-1.25, -2.5, -3.75, -5, 5.5, 4.25, 3, 0.875, -0.375, -1.625, 2.125, -5.875, -6.25, 3.375, -4.625, 0}},
    {"ReverseSequence",
     10,
     {{"time_axis", int64_t(1)}, {"batch_axis", int64_t(0)}},
     {2, 3, 2},
     {{{2, 3}, 1}},
     {2, 3, 2},
     {3, -5, -6.25, -1.625, -0.375, 4.25, 2.125, -5.875, 5.5, -2.5, -3.75, 0.875}},
    {"ReverseSequence", 10, {}, {3, 2}, {{{0, 3}, 1}}, {3, 2}, {-6.25, 4.25, 3, -5, -0.375, -1.625}},
};

// By ONNX Runtime alone.
const std::vector<Recorded> kColumns = {
    {"Col2Im", 18, {}, {1, 4, 4}, {{{3, 3}, 1}, {{2, 2}, 1}}, {1, 1, 3, 3}, {-6.25, -2, 4.25, 8.5, -12.5, 4.25, 2.125, -10.5, 0}},
    {"Col2Im", 18, {}, {1, 8, 1}, {{{2, 2}, 1}, {{2, 2}, 1}}, {1, 2, 2, 2}, {-6.25, -1.625, 3, -5, -0.375, 4.25, -3.75, 0.875}},
    {"Col2Im", 18, {{"strides", Ints{2}}}, {1, 2, 3}, {{{6}, 1}, {{2}, 1}}, {1, 1, 6}, {-6.25, -5, -1.625, -0.375, 3, 4.25}},
    {"Col2Im",
     18,
     {{"dilations", Ints{2}}, {"pads", Ints{1, 1}}},
     {1, 2, 4},
     {{{4}, 1}, {{2}, 1}},
     {1, 1, 4},
     {-1.625, 2.625, -0.75, -3.75}},
    {"Col2Im",
     18,
     {{"strides", Ints{1, 2}}, {"pads", Ints{0, 1, 1, 0}}},
     {2, 4, 6},
     {{{3, 4}, 1}, {{2, 2}, 1}},
     {2, 1, 3, 4},
     {-3.75, -1.625, 0.875, 0, 6.75, -1.625, 3.375, 0, 0, 4.25, -3.375, 0, 6.25, -4.25, -1.75, 0, 1.5, 5.75, -1.875, 0, -5.25, -1, 4, 0}},
    {"Col2Im", 18, {}, {1, 8, 1}, {{{2, 2, 2}, 1}, {{2, 2, 2}, 1}}, {1, 1, 2, 2, 2}, {-6.25, -1.625, 3, -5, -0.375, 4.25, -3.75, 0.875}},
};

std::string errorOf(const std::string &op, int64_t opset, std::vector<Attribute> attributes, std::vector<int64_t> shape,
                    std::vector<Known> known = {}) {
  return importError(modelOf({op, opset, std::move(attributes), std::move(shape), std::move(known), {}, {}}));
}

} // namespace

TEST_CASE("onnx ops that move elements", "[frontend]") {
  checkRecorded(kMoves);
}

TEST_CASE("onnx Col2Im", "[frontend]") {
  checkRecorded(kColumns);
  CHECK_THAT(errorOf("Col2Im", 18, {}, {1, 4, 3}, {{{3, 3}, 1}, {{2, 2}, 1}}),
             contains("input is [1, 4, 3] of f32, not channels times 4 elements of a block, and 4 blocks"));
  CHECK_THAT(errorOf("Col2Im", 18, {}, {1, 4}, {{{3}, 1}, {{2}, 1}}), contains("input is [1, 4] of f32 for an image of 1 dims"));
  CHECK_THAT(errorOf("Col2Im", 18, {}, {1, 4, 4}, {{{3, 0}, 1}, {{2, 2}, 1}}), contains("has an image of size 0 and blocks of size 2"));
  CHECK_THAT(errorOf("Col2Im", 18, {{"auto_pad", std::string("VALID")}}, {1, 4, 4}, {{{3, 3}, 1}, {{2, 2}, 1}}),
             contains("attribute \"auto_pad\" is not supported"));
}

// A reversed dim is a sum of one term: the others keep their splits, and kernels read the elements where they are.
TEST_CASE("onnx Slice with a negative step", "[frontend]") {
  OnnxModel model = OnnxModel(13).input("x", {3}, TensorProto::BOOL).ints("start", {-1}).ints("end", {-9}).ints("axis", {0});
  model.ints("step", {-1}).node("Slice", {"x", "start", "end", "axis", "step"}, {"y"}).output("y");
  auto results = evaluate(model, {boolean({3}, {1, 0, 0})});
  CHECK(holds(results[0], {3}, {0, 0, 1}));
  CHECK(results[0].getType().getElementType().isInteger(1));
  std::string text = print(*import(modelOf(kMoves[0])));
  CHECK_THAT(text, contains("nn.resample"));
  CHECK_THAT(text, !contains("nn.slice"));
  CHECK_THAT(errorOf("Slice", 13, {}, {3}, {{{2}, 1}, {{0}, 1}, {{0}, 1}, {{0}, 1}}), contains("step of axis 0 is 0"));
  CHECK(holds(evaluate(modelOf({"Slice", 13, {}, {0, 2}, {{{-1}, 1}, {{-9}, 1}, {{0}, 1}, {{-1}, 1}}, {}, {}}), {f32({0, 2}, {})})[0],
              {0, 2}, {}));
}

TEST_CASE("onnx Tile: errors", "[frontend]") {
  CHECK_THAT(errorOf("Tile", 13, {}, {2, 3}, {{{2}, 1}}), contains("has 1 repeats for 2 dims"));
  CHECK_THAT(errorOf("Tile", 13, {}, {2, 3}, {{{2, -1}, 1}}), contains("repeats dim 1 -1 times"));
  CHECK_THAT(errorOf("Tile", 13, {}, {2, 3}, {{{1e18, 1e18}, 1}}), contains("bytes, the most that a tensor may have"));
  OnnxModel open = OnnxModel(13).input("x", {2}).input("r", {1}, TensorProto::INT64).node("Tile", {"x", "r"}, {"y"}).output("y");
  CHECK_THAT(importError(open), contains("input \"repeats\" has to be a list of integers known at compile time"));
}

TEST_CASE("onnx DepthToSpace and SpaceToDepth: errors", "[frontend]") {
  auto block = [](int64_t size) { return Attribute{"blocksize", size}; };
  CHECK_THAT(errorOf("DepthToSpace", 13, {block(2)}, {1, 6, 1, 1}), contains("has 6 channels, not a multiple of blocksize^2 = 4"));
  CHECK_THAT(errorOf("DepthToSpace", 13, {block(0)}, {1, 4, 1, 1}), contains("attribute \"blocksize\" is 0, not in [1, 32768]"));
  CHECK_THAT(errorOf("DepthToSpace", 13, {block(2), {"mode", std::string("RDC")}}, {1, 4, 1, 1}), contains("is \"RDC\"; use DCR or CRD"));
  CHECK_THAT(errorOf("DepthToSpace", 7, {block(2), {"mode", std::string("CRD")}}, {1, 4, 1, 1}),
             contains("attribute \"mode\" is not supported"));
  CHECK_THAT(errorOf("SpaceToDepth", 13, {block(2)}, {1, 1, 2, 3}), contains("height 2 and width 3 are not multiples of blocksize 2"));
  CHECK_THAT(errorOf("SpaceToDepth", 13, {block(2)}, {1, 2, 2}), contains("input is [1, 2, 2] of f32, not an image"));
}

TEST_CASE("onnx CenterCropPad: errors", "[frontend]") {
  CHECK_THAT(errorOf("CenterCropPad", 18, {}, {2, 3}, {{{2}, 1}}), contains("has 1 sizes for 2 axes"));
  CHECK_THAT(errorOf("CenterCropPad", 18, {{"axes", Ints{2}}}, {2, 3}, {{{2}, 1}}), contains("axis 2 is not in [-2, 2)"));
  CHECK_THAT(errorOf("CenterCropPad", 18, {}, {2, 3}, {{{2, -1}, 1}}), contains("size -1 of dim 1 is not a possible size"));
}

// Lengths that are computed; beyond the end there is nothing. Ints and bools move as floats do.
TEST_CASE("onnx ReverseSequence", "[frontend]") {
  OnnxModel model = OnnxModel(10).input("x", {2, 3}, TensorProto::BOOL).input("l", {2}, TensorProto::INT64);
  model.node("ReverseSequence", {"x", "l"}, {"y"}, {{"time_axis", int64_t(1)}, {"batch_axis", int64_t(0)}}).output("y");
  CHECK(holds(evaluate(model, {boolean({2, 3}, {1, 0, 0, 0, 0, 1}), i64({2}, {3, 1})})[0], {2, 3}, {0, 0, 1, 0, 0, 1}));
  CHECK(holds(evaluate(model, {boolean({2, 3}, {1, 1, 0, 1, 1, 1}), i64({2}, {-1, 4})})[0], {2, 3}, {1, 1, 0, 0, 1, 1}));
  CHECK_THAT(errorOf("ReverseSequence", 10, {}, {2, 3}, {{{1, 2, 3}, 1}}), contains("length 3 is not in [0, 2]"));
  CHECK_THAT(errorOf("ReverseSequence", 10, {}, {2, 3}, {{{1, 2}, 1}}), contains("sequence_lens are [2] of i64, not [3] of i64"));
  CHECK_THAT(errorOf("ReverseSequence", 10, {{"time_axis", int64_t(1)}}, {2, 3}, {{{1, 2}, 1}}),
             contains("time_axis 1 and batch_axis 1 of [2, 3] of f32 are not its first two dims"));
}

TEST_CASE("onnx CastLike", "[frontend]") {
  auto like = [](int64_t opset, int32_t type, std::vector<Attribute> attributes) {
    OnnxModel model = OnnxModel(opset).input("x", {3}).input("t", {}, type);
    return model.node("CastLike", {"x", "t"}, {"y"}, std::move(attributes)).output("y");
  };
  auto x = [] { return f32({3}, {-1.75, 0, 2.5}); };
  CHECK(holds(evaluate(like(15, TensorProto::INT64, {}), {x(), i64({}, {7})})[0], {3}, {-1, 0, 2}));
  CHECK(holds(
      evaluate(like(25, TensorProto::BOOL, {{"round_mode", std::string("down")}, {"saturate", int64_t(1)}}), {x(), boolean({}, {1})})[0],
      {3}, {1, 0, 1}));
  CHECK(holds(evaluate(like(19, TensorProto::FLOAT, {}), {x(), f32({}, {1})})[0], {3}, {-1.75, 0, 2.5}));
  CHECK_THAT(importError(like(19, TensorProto::DOUBLE, {{"saturate", int64_t(0)}})), contains("attribute \"saturate\" 0 is not supported"));
}

} // namespace ashlar::test::moving_test
