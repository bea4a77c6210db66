// SPDX-License-Identifier: Apache-2.0
//
// GridSample and AffineGrid, against the reference evaluator of ONNX 1.23. PyTorch 2.15 agrees, but for cubic samples beyond a border,
// which it does not bring inside first.

#include "test/unit/frontend/recorded_nodes.h"

#include <cmath>

namespace ashlar::test::sampling_test {

using onnx::TensorProto;

TEST_CASE("onnx GridSample", "[frontend]") {
  checkRecordedNodes({
      {"GridSample",
       16,
       {{"mode", std::string("bilinear")}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {0.4832153, 0, 0, -0.328186, 0.0422974, 0, 0.2967529, 0, 0, 0.296875, 0.3446045, 0}}}},
      {"GridSample",
       16,
       {{"mode", std::string("nearest")}, {"padding_mode", std::string("zeros")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {-0.09375, 0, 0, -0.625, 0, 0, 1.15625, 0, 0, 0.625, 0, 0}}}},
      {"GridSample",
       16,
       {{"mode", std::string("bicubic")}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.7602619, 0.1107002, 0.036587, -0.5673882, 0.026895, 0, 0.4630526, -0.0316303, 0.0136893, 0.4998283, 0.5054639, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("linear")}, {"padding_mode", std::string("zeros")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {0.4832153, 0, 0, -0.328186, 0.0422974, 0, 0.2967529, 0, 0, 0.296875, 0.3446045, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("linear")}, {"padding_mode", std::string("zeros")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.4050598, -0.1667023, -0.078125, -0.3547058, 0.0398254, -0.5517578, 0.3913269, 0.2043915, -0.4064941, 0.2233582, 0.90448,
          0.2294922}}}},
      {"GridSample",
       22,
       {{"mode", std::string("linear")}, {"padding_mode", std::string("border")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.5947266, -0.9516602, -0.75, -0.5527344, 0.112793, -1.25, 0.3652344, 0.2983398, -0.2890625, 0.5, 0.9189453, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("linear")}, {"padding_mode", std::string("border")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.4050598, -0.5615234, -0.125, -0.3547058, 0.0439453, -0.8828125, 0.3913269, 0.6884766, -0.6503906, 0.2233582, 0.9980469,
          0.3671875}}}},
      {"GridSample",
       22,
       {{"mode", std::string("linear")}, {"padding_mode", std::string("reflection")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.5947266, -0.3571472, -0.7075195, -0.5527344, 0.112793, -1.25, 0.3652344, -0.2075195, -0.1972656, 0.5, 0.9189453, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("linear")}, {"padding_mode", std::string("reflection")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.4050598, -0.1955414, -0.2399902, -0.3547058, 0.1246033, -0.4287109, 0.3913269, -0.1245117, -0.0996094, 0.2233582, 0.8382874,
          -0.0664062}}}},
      {"GridSample",
       22,
       {{"mode", std::string("nearest")}, {"padding_mode", std::string("zeros")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {-0.09375, 0, 0, -0.625, 0, 0, 1.15625, 0, 0, 0.625, 0, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("nearest")}, {"padding_mode", std::string("zeros")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {-0.09375, 0, 0.75, -0.625, -0.09375, -1.25, 1.15625, 0, -1.15625, 0.625, 1.15625, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("nearest")}, {"padding_mode", std::string("border")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {-0.09375, -1.25, -1.25, -0.625, -0.09375, -1.25, 1.15625, 0, 0, 0.625, 1.15625, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("nearest")}, {"padding_mode", std::string("border")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {-0.09375, -1.25, 0.75, -0.625, -0.09375, -1.25, 1.15625, 0, -1.15625, 0.625, 1.15625, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("nearest")}, {"padding_mode", std::string("reflection")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {-0.09375, -1.25, -1.25, -0.625, -0.09375, -1.25, 1.15625, 0, 0, 0.625, 1.15625, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("nearest")}, {"padding_mode", std::string("reflection")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0, {1, 2, 2, 3}, {-0.09375, 0.75, 0.75, -0.625, -0.09375, -1.25, 1.15625, -1.15625, -1.15625, 0.625, 1.15625, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("cubic")}, {"padding_mode", std::string("zeros")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.7602619, 0.1107002, 0.036587, -0.5673882, 0.026895, 0, 0.4630526, -0.0316303, 0.0136893, 0.4998283, 0.5054639, 0}}}},
      {"GridSample",
       22,
       {{"mode", std::string("cubic")}, {"padding_mode", std::string("zeros")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.6972079, -0.1709798, 0.0014292, -0.5437042, 0.050951, -0.7852378, 0.5777843, 0.2880188, -0.7649188, 0.3581454, 1.1356742,
          0.3912267}}}},
      {"GridSample",
       22,
       {{"mode", std::string("cubic")}, {"padding_mode", std::string("border")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.7636094, -0.9453373, -0.7562256, -0.8219129, 0.1953017, -1.355423, 0.5960638, 0.3046627, -0.3322754, 0.7249835, 1.0699925,
          -0.105423}}}},
      {"GridSample",
       22,
       {{"mode", std::string("cubic")}, {"padding_mode", std::string("border")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.5925263, -0.4195023, 0.0104237, -0.5192577, 0.1034138, -0.8579102, 0.5067866, 0.8304977, -0.8669243, 0.341297, 1.111985,
          0.3920898}}}},
      {"GridSample",
       22,
       {{"mode", std::string("cubic")}, {"padding_mode", std::string("reflection")}, {"align_corners", int64_t(0)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.7702712, -0.3206967, -0.7219285, -0.9433289, 0.058027, -1.3704834, 0.6141869, -0.3018729, -0.2488515, 0.8309597, 1.3987976,
          -0.1204834}}}},
      {"GridSample",
       22,
       {{"mode", std::string("cubic")}, {"padding_mode", std::string("reflection")}, {"align_corners", int64_t(1)}},
       {{{1, 2, 3, 4}}, {{1, 2, 3, 2}}},
       {{0,
         {1, 2, 2, 3},
         {0.620326, -0.2092828, -0.2643992, -0.5785771, 0.1404647, -0.5916634, 0.5909391, -0.1616974, -0.190735, 0.3939899, 1.0594348,
          -0.151772}}}},
      {"GridSample",
       22,
       {},
       {{{2, 1, 2, 2, 3}}, {{2, 1, 2, 2, 3}}},
       {{0, {2, 1, 1, 2, 2}, {-0.0156879, -0.1110306, -0.1164379, 0.0129089, 0, -0.1859055, -0.1749001, 0}}}},
      {"GridSample",
       20,
       {{"padding_mode", std::string("border")}, {"mode", std::string("nearest")}},
       {{{2, 1, 4}}, {{2, 3, 1}}},
       {{0, {2, 1, 3}, {-1.5625, 0.75, -1.25, -0.09375, 0.21875, -0.09375}}}},
  });
}

TEST_CASE("onnx AffineGrid", "[frontend]") {
  checkRecordedNodes({
      {"AffineGrid",
       20,
       {{"align_corners", int64_t(0)}},
       {{{2, 2, 3}}, {{4}, {2, 1, 2, 3}}},
       {{0, {2, 2, 3, 2}, {1.9947916, 1.9427084,  0.953125,   1.109375,   -0.0885417, 0.2760417,  1.5885416, 1.8489584,
                           0.546875,  1.015625,   -0.4947917, 0.1822917,  1.890625,   -1.3177084, 1.265625,  -1.734375,
                           0.640625,  -2.1510417, 2.109375,   -0.7864583, 1.484375,   -1.203125,  0.859375,  -1.6197916}}}},
      {"AffineGrid",
       20,
       {{"align_corners", int64_t(1)}},
       {{{2, 2, 3}}, {{4}, {2, 1, 2, 3}}},
       {{0, {2, 2, 3, 2}, {2.71875, 2.40625, 1.15625,  1.15625,  -0.40625, -0.09375, 1.90625, 2.21875,
                           0.34375, 0.96875, -1.21875, -0.28125, 2.09375,  -1.375,   1.15625, -2,
                           0.21875, -2.625,  2.53125,  -0.3125,  1.59375,  -0.9375,  0.65625, -1.5625}}}},
      {"AffineGrid",
       20,
       {{"align_corners", int64_t(0)}},
       {{{1, 3, 4}}, {{5}, {1, 1, 2, 3, 2}}},
       {{0, {1, 2, 3, 2, 3}, {-0.5729167, 0.0260417,  -2.0052083, -2.1354167, -0.0677083, -0.6302083, -0.84375,   0.734375,  -2.421875,
                              -2.40625,   0.640625,   -1.046875,  -1.1145834, 1.4427084,  -2.8385417, -2.6770833, 1.3489584, -1.4635416,
                              0.1770833,  -0.9114583, -1.4739584, -1.3854166, -1.0052084, -0.0989583, -0.09375,   -0.203125, -1.890625,
                              -1.65625,   -0.296875,  -0.515625,  -0.3645833, 0.5052083,  -2.3072917, -1.9270834, 0.4114583, -0.9322917}}}},
      {"AffineGrid",
       20,
       {{"align_corners", int64_t(1)}},
       {{{1, 3, 4}}, {{5}, {1, 1, 2, 3, 2}}},
       {{0, {1, 2, 3, 2, 3}, {-0.03125, 0.1875,  -2.75,   -3.15625, 0,      0,       -0.4375,  1.25,   -3.375,
                              -3.5625,  1.0625,  -0.625,  -0.84375, 2.3125, -4,      -3.96875, 2.125,  -1.25,
                              1.46875,  -1.6875, -1.6875, -1.65625, -1.875, 1.0625,  1.0625,   -0.625, -2.3125,
                              -2.0625,  -0.8125, 0.4375,  0.65625,  0.4375, -2.9375, -2.46875, 0.25,   -0.1875}}}},
  });
}

// A dim of one pixel, and places far away or nowhere.
TEST_CASE("onnx GridSample at odd places", "[frontend]") {
  auto sample = [](std::vector<double> places, std::string padding, int64_t alignCorners) {
    const auto count = static_cast<int64_t>(places.size());
    OnnxModel model = OnnxModel(22).input("x", {1, 1, 1, 2}).input("g", {1, 1, count / 2, 2});
    model.node("GridSample", {"x", "g"}, {"y"}, {{"padding_mode", std::move(padding)}, {"align_corners", alignCorners}}).output("y");
    return evaluate(model, {f32({1, 1, 1, 2}, {1, 3}), f32({1, 1, count / 2, 2}, std::move(places))})[0];
  };
  const std::vector<double> places = {0, 0, 1, 5, -1e30, 0, 1e30, -1e30};
  CHECK(holds(sample(places, "zeros", 1), {1, 1, 1, 4}, {2, 3, 0, 0})); // the one row is at every height
  CHECK(holds(sample(places, "border", 1), {1, 1, 1, 4}, {2, 3, 1, 3}));
  CHECK(holds(sample({0, 0, 1, 5}, "reflection", 1), {1, 1, 1, 2}, {2, 3}));
  CHECK(std::isnan(sample({NAN, 0}, "zeros", 0).getFloat(0)));
}

// ONNX Runtime agrees. The regions: one inside, a small one, one that reaches over the edges.
TEST_CASE("onnx RoiAlign", "[frontend]") {
  struct Row {
    int64_t opset;
    std::vector<Attribute> attributes;
    std::vector<int64_t> shape;
    std::vector<double> bins;
  };
  const std::vector<Row> rows = {
      {22,
       {{"output_height", int64_t(2)}, {"output_width", int64_t(2)}, {"sampling_ratio", int64_t(2)}},
       {3, 2, 2, 2},
       {-0.1721191, -0.2008057, 0.2224426,  -0.6661987, -0.0039062, 0.1893311,  -0.5802612, 0.0290833,
        -0.3811035, -0.4831543, -0.1687012, -0.3693848, -0.2128906, -0.0683594, -0.3457031, -0.2011719,
        0.3134766,  0.4697266,  0.0852051,  0.2414551,  -0.6257324, -0.4694824, 0.2802734,  0.4365234}},
      {16,
       {{"output_height", int64_t(1)},
        {"output_width", int64_t(2)},
        {"sampling_ratio", int64_t(1)},
        {"spatial_scale", 0.5f},
        {"coordinate_transformation_mode", std::string("output_half_pixel")}},
       {3, 2, 1, 2},
       {0.4211426, 0.1047363, -0.1503906, -0.4667969, -0.4375, -0.6484375, -0.1953125, 0.3828125, -0.296875, 0.015625, 0.734375, 1.046875}},
      {22,
       {{"output_height", int64_t(2)}, {"output_width", int64_t(1)}, {"sampling_ratio", int64_t(3)}, {"mode", std::string("max")}},
       {3, 2, 2, 1},
       {0.5039062, 0.3632813, 0.765625, 0.4238282, 0.3449436, 0.4666883, 0.202908, 0.0922309, 0.1396485, 0.609375, 0.3662109, 0.1871745}},
      {10,
       {{"output_height", int64_t(1)}, {"output_width", int64_t(1)}, {"sampling_ratio", int64_t(2)}},
       {3, 2, 1, 1},
       {0.0628662, -0.027832, -0.625, 0.40625, -0.472168, 0.043457}},
  };
  for (const auto &[i, row] : llvm::enumerate(rows)) {
    INFO("row " << i);
    OnnxModel model = OnnxModel(row.opset).input("x", {2, 2, 4, 5}).input("r", {3, 4}).input("b", {3}, TensorProto::INT64);
    model.node("RoiAlign", {"x", "r", "b"}, {"y"}, row.attributes).output("y");
    auto regions = f32({3, 4}, {0.5, 0.25, 3.5, 3, 1, 1, 1.25, 1.5, -3, 2, 9, 3.75});
    CHECK(holds(evaluate(model, {nodeRamp({2, 2, 4, 5}, 0), regions, i64({3}, {1, 0, 1})})[0], row.shape, row.bins));
  }
}

TEST_CASE("onnx RoiAlign refuses", "[frontend]") {
  auto refusal = [](std::vector<Dim> regions, std::vector<Attribute> attributes) {
    OnnxModel model = OnnxModel(16).input("x", {2, 2, 4, 5}).input("r", std::move(regions)).input("b", {3}, TensorProto::INT64);
    return importError(model.node("RoiAlign", {"x", "r", "b"}, {"y"}, std::move(attributes)).output("y"));
  };
  CHECK_THAT(refusal({3, 4}, {}), contains("attribute \"sampling_ratio\" is 0; a number of samples from 1 on is supported"));
  CHECK_THAT(refusal({3, 5}, {{"sampling_ratio", int64_t(2)}}),
             contains("rois of [3, 5] of f32 and batch_indices of [3] of i64 do not fit"));
  CHECK_THAT(refusal({3, 4}, {{"sampling_ratio", int64_t(2)}, {"output_height", int64_t(0)}}), contains("has 0 by 1 bins"));
  CHECK_THAT(refusal({3, 4}, {{"mode", std::string("sum")}}), contains("attribute \"mode\" is \"sum\"; one of avg, max"));
  CHECK_THAT(refusal({3, 4}, {{"coordinate_transformation_mode", std::string("none")}}), contains("one of half_pixel, output_half_pixel"));
}

TEST_CASE("onnx GridSample and AffineGrid refuse", "[frontend]") {
  CHECK_THAT(errorOf("GridSample", 22, {{1, 2, 3, 4}, {1, 2, 3, 3}}),
             contains("X of [1, 2, 3, 4] of f32 and grid of [1, 2, 3, 3] of f32 do not fit"));
  CHECK_THAT(errorOf("GridSample", 22, {{1, 2, 3, 4}, {1, 2, 3, 2}}, {{"mode", std::string("bilinear")}}),
             contains("attribute \"mode\" is \"bilinear\"; one of linear, nearest, cubic"));
  CHECK_THAT(errorOf("GridSample", 16, {{1, 2, 3, 4}, {1, 2, 3, 2}}, {{"mode", std::string("linear")}}),
             contains("attribute \"mode\" is \"linear\"; one of bilinear, nearest, bicubic"));
  CHECK_THAT(errorOf("GridSample", 22, {{1, 2, 3, 4}, {1, 2, 3, 2}}, {{"padding_mode", std::string("wrap")}}),
             contains("\"wrap\"; one of zeros, border, reflection"));
  CHECK_THAT(errorOf("AffineGrid", 20, {{1, 2, 3}, {4}}), contains("input \"size\" has to be a list of integers known at compile time"));
  OnnxModel model = OnnxModel(20).input("t", {2, 2, 3}).ints("s", {1, 1, 4, 4});
  CHECK_THAT(importError(model.node("AffineGrid", {"t", "s"}, {"y"}).output("y")),
             contains("theta of [2, 2, 3] of f32 and size [1, 1, 4, 4] do not fit"));
}

} // namespace ashlar::test::sampling_test
