// SPDX-License-Identifier: Apache-2.0
//
// ONNX Resize and Upsample against recorded numbers; those of cubic from the reference evaluator in f64, since ONNX Runtime rounds the
// weights, and of torch.nn.functional.interpolate (2.15) where what lies outside is excluded against aliasing.

#include "test/unit/frontend/recorded.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace ashlar::test::resizing_test {

using onnx::TensorProto;

namespace {

using Int = int64_t;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Text = std::string;

// A Resize to sizes.
Recorded toSizes(int64_t opset, std::vector<Attribute> attributes, const Ints &shape, const Ints &sizes, std::vector<double> result) {
  Known known{std::vector<double>(sizes.begin(), sizes.end()), 1};
  return {"Resize", opset, std::move(attributes), shape, {{{}, 0}, {{}, 0}, known}, sizes, std::move(result)};
}

// A Resize by scales.
Recorded byScales(int64_t opset, std::vector<Attribute> attributes, const Ints &shape, std::vector<double> scales, const Ints &resultShape,
                  std::vector<double> result) {
  return {"Resize", opset, std::move(attributes), shape, {{{}, 0}, {std::move(scales), 0}}, resultShape, std::move(result)};
}

// The nearest elements of 2 rows and 5 columns as 3 rows and 8 columns.
Recorded nearest(const Text &coordinates, const Text &rounding, std::vector<double> result) {
  return toSizes(19, {{"mode", Text("nearest")}, {"coordinate_transformation_mode", coordinates}, {"nearest_mode", rounding}}, {1, 1, 2, 5},
                 {1, 1, 3, 8}, std::move(result));
}

// 2 rows and 3 columns as 3 rows and 7 columns.
Recorded linear(const Text &coordinates, std::vector<double> result) {
  return toSizes(19, {{"mode", Text("linear")}, {"coordinate_transformation_mode", coordinates}}, {1, 1, 2, 3}, {1, 1, 3, 7},
                 std::move(result));
}

const std::vector<Recorded> kResizes = {
    nearest("half_pixel", "round_prefer_floor", {-6.25, -6.25, -1.625, 3,      3,    -5,   -0.375, -0.375, -6.25, -6.25, -1.625, 3,
                                                 3,     -5,    -0.375, -0.375, 4.25, 4.25, -3.75,  0.875,  0.875, 5.5,   -2.5,   -2.5}),
    nearest("half_pixel", "round_prefer_ceil", {-6.25, -6.25, -1.625, 3,    3,    -5,   -0.375, -0.375, 4.25,  4.25, -3.75, 0.875,
                                                0.875, 5.5,   -2.5,   -2.5, 4.25, 4.25, -3.75,  0.875,  0.875, 5.5,  -2.5,  -2.5}),
    nearest("half_pixel", "floor", {-6.25, -6.25, -1.625, -1.625, 3,    3,    -5,    -0.375, -6.25, -6.25, -1.625, -1.625,
                                    3,     3,     -5,     -0.375, 4.25, 4.25, -3.75, -3.75,  0.875, 0.875, 5.5,    -2.5}),
    nearest("half_pixel", "ceil", {-6.25, -1.625, 3,    3,    -5,   -5,    -0.375, -0.375, 4.25, -3.75, 0.875, 0.875,
                                   5.5,   5.5,    -2.5, -2.5, 4.25, -3.75, 0.875,  0.875,  5.5,  5.5,   -2.5,  -2.5}),
    nearest("asymmetric", "round_prefer_floor", {-6.25, -1.625, -1.625, 3,    3,    -5,    -0.375, -0.375, 4.25,  -3.75, -3.75, 0.875,
                                                 0.875, 5.5,    -2.5,   -2.5, 4.25, -3.75, -3.75,  0.875,  0.875, 5.5,   -2.5,  -2.5}),
    nearest("asymmetric", "round_prefer_ceil", {-6.25, -1.625, -1.625, 3,    -5,   -5,    -0.375, -0.375, 4.25, -3.75, -3.75, 0.875,
                                                5.5,   5.5,    -2.5,   -2.5, 4.25, -3.75, -3.75,  0.875,  5.5,  5.5,   -2.5,  -2.5}),
    nearest("asymmetric", "floor", {-6.25, -6.25, -1.625, -1.625, 3,    -5,   -5,    -0.375, -6.25, -6.25, -1.625, -1.625,
                                    3,     -5,    -5,     -0.375, 4.25, 4.25, -3.75, -3.75,  0.875, 5.5,   5.5,    -2.5}),
    nearest("asymmetric", "ceil", {-6.25, -1.625, 3,    3,    -5,   -0.375, -0.375, -0.375, 4.25, -3.75, 0.875, 0.875,
                                   5.5,   -2.5,   -2.5, -2.5, 4.25, -3.75,  0.875,  0.875,  5.5,  -2.5,  -2.5,  -2.5}),
    nearest("align_corners", "round_prefer_floor", {-6.25, -1.625, -1.625, 3,    3,     -5,    -5,    -0.375, -6.25, -1.625, -1.625, 3, 3,
                                                    -5,    -5,     -0.375, 4.25, -3.75, -3.75, 0.875, 0.875,  5.5,   5.5,    -2.5}),
    nearest("align_corners", "round_prefer_ceil", {-6.25, -1.625, -1.625, 3,    3,    -5,    -5,    -0.375, 4.25,  -3.75, -3.75, 0.875,
                                                   0.875, 5.5,    5.5,    -2.5, 4.25, -3.75, -3.75, 0.875,  0.875, 5.5,   5.5,   -2.5}),
    nearest("align_corners", "floor", {-6.25, -6.25, -1.625, -1.625, 3,    3,    -5,    -0.375, -6.25, -6.25, -1.625, -1.625,
                                       3,     3,     -5,     -0.375, 4.25, 4.25, -3.75, -3.75,  0.875, 0.875, 5.5,    -2.5}),
    nearest("align_corners", "ceil", {-6.25, -1.625, 3,    3,    -5,   -5,    -0.375, -0.375, 4.25, -3.75, 0.875, 0.875,
                                      5.5,   5.5,    -2.5, -2.5, 4.25, -3.75, 0.875,  0.875,  5.5,  5.5,   -2.5,  -2.5}),
    nearest("pytorch_half_pixel", "round_prefer_floor",
            {-6.25, -6.25, -1.625, 3,      3,    -5,   -0.375, -0.375, -6.25, -6.25, -1.625, 3,
             3,     -5,    -0.375, -0.375, 4.25, 4.25, -3.75,  0.875,  0.875, 5.5,   -2.5,   -2.5}),
    nearest("half_pixel_symmetric", "round_prefer_floor",
            {-6.25, -6.25, -1.625, 3,      3,    -5,   -0.375, -0.375, -6.25, -6.25, -1.625, 3,
             3,     -5,    -0.375, -0.375, 4.25, 4.25, -3.75,  0.875,  0.875, 5.5,   -2.5,   -2.5}),
    toSizes(11,
            {{"mode", Text("nearest")}, {"coordinate_transformation_mode", Text("tf_half_pixel_for_nn")}, {"nearest_mode", Text("floor")}},
            {1, 1, 1, 6}, {1, 1, 1, 4}, {-6.25, 3, -5, 4.25}),
    byScales(13, {{"mode", Text("nearest")}, {"coordinate_transformation_mode", Text("asymmetric")}, {"nearest_mode", Text("floor")}},
             {1, 2, 2, 2}, {1, 1, 2, 3}, {1, 2, 4, 6},
             {-6.25,  -6.25, -6.25, -1.625, -1.625, -1.625, -6.25, -6.25, -6.25,  -1.625, -1.625, -1.625, 3,     3,     3,      -5,
              -5,     -5,    3,     3,      3,      -5,     -5,    -5,    -0.375, -0.375, -0.375, 4.25,   4.25,  4.25,  -0.375, -0.375,
              -0.375, 4.25,  4.25,  4.25,   -3.75,  -3.75,  -3.75, 0.875, 0.875,  0.875,  -3.75,  -3.75,  -3.75, 0.875, 0.875,  0.875}),
    byScales(13, {{"mode", Text("nearest")}}, {1, 1, 4, 5}, {1, 1, 0.60000002, 0.5}, {1, 1, 2, 2}, {-6.25, 3, 2.125, -1.25}),
    linear("half_pixel", {-6.25,      -5.5892854, -3.6071424, -1.625, 0.35714304, 2.3392861,  3,      -5.625,   -4.9642859, -2.9821424, -1,
                          0.98214304, 2.9642861,  3.625,      -5,     -4.3392859, -2.3571424, -0.375, 1.607143, 3.5892861,  4.25}),
    linear("asymmetric", {-6.25,     -4.2678571, -2.2857141, -0.30357099, 1.6785715, 3,         3,
                          -5.416667, -3.4345236, -1.4523809, 0.52976239,  2.511905,  3.8333335, 3.8333335,
                          -5,        -3.0178571, -1.0357143, 0.94642901,  2.9285715, 4.25,      4.25}),
    linear("align_corners",
           {-6.25,      -4.708333, -3.1666665, -1.625, -0.083333135, 1.4583331,  3,      -5.625,    -4.083333, -2.5416665, -1,
            0.54166687, 2.0833333, 3.625,      -5,     -3.458333,    -1.9166665, -0.375, 1.1666669, 2.7083333, 4.25}),
    linear("pytorch_half_pixel",
           {-6.25,      -5.5892854, -3.6071424, -1.625, 0.35714304, 2.3392861,  3,      -5.625,   -4.9642859, -2.9821424, -1,
            0.98214304, 2.9642861,  3.625,      -5,     -4.3392859, -2.3571424, -0.375, 1.607143, 3.5892861,  4.25}),
    linear("half_pixel_symmetric",
           {-6.25,      -5.5892854, -3.6071427, -1.625, 0.35714304, 2.3392861,  3,      -5.625,   -4.9642859, -2.9821429, -1,
            0.98214304, 2.9642861,  3.625,      -5,     -4.3392859, -2.3571429, -0.375, 1.607143, 3.5892861,  4.25}),
    byScales(13, {{"mode", Text("linear")}, {"coordinate_transformation_mode", Text("half_pixel")}}, {1, 2, 2, 2}, {1, 1, 2, 2},
             {1, 2, 4, 4},
             {-6.25,    -5.09375, -2.78125, -1.625, -3.9375, -3.5703125, -2.8359375, -2.46875, 0.6875,   -0.5234375, -2.9453125,
              -4.15625, 3,        1,        -3,     -5,      -0.375,     0.78125,    3.09375,  4.25,     -1.21875,   -0.0625,
              2.25,     3.40625,  -2.90625, -1.75,  0.5625,  1.71875,    -3.75,      -2.59375, -0.28125, 0.875}),
    toSizes(13, {{"mode", Text("linear")}, {"coordinate_transformation_mode", Text("align_corners")}}, {1, 1, 4, 4}, {1, 1, 2, 1},
            {-6.25, -1.25}),
    toSizes(13, {{"mode", Text("linear")}, {"coordinate_transformation_mode", Text("pytorch_half_pixel")}}, {1, 1, 1, 6}, {1, 1, 1, 1},
            {-6.25}),
    byScales(19, {{"mode", Text("linear")}, {"coordinate_transformation_mode", Text("half_pixel_symmetric")}}, {1, 1, 1, 4},
             {1, 1, 1, 0.60000002}, {1, 1, 1, 2}, {-3.1666667, 0.33333397}),
    byScales(13, {{"mode", Text("cubic")}}, {1, 1, 4, 4}, {1, 1, 1.5, 2}, {1, 1, 6, 8},
             {-7.24777561, -5.91325718,  -3.7862125,  -0.0312652588, 3.41172451,    2.12852139,  -3.24806213,  -6.46931797,
              -4.47590637, -2.44633484,  0.932113647, 1.9251709,     -0.0179443359, -1.34275818, -1.41645813,  -1.48283386,
              0.821766606, 1.93139309,   3.84667404,  2.23246878,    -2.07292514,   -3.28472222, -0.770109954, 0.703396267,
              6.11299698,  3.56476169,   -0.67811528, -1.6231243,    1.40364414,    0.539116753, -3.58389395,  -6.0593533,
              2.97859192,  2.04301453,   0.50831604,  -0.511352539,  -0.383178711,  -1.40284729, -2.93754578,  -3.87312317,
              -2.4393158,  -0.220013089, 3.548172,    2.22644043,    -3.55239529,   -4.87412686, -1.10594177,  1.11336093}),
    toSizes(13, {{"mode", Text("cubic")}, {"cubic_coeff_a", -0.5f}, {"exclude_outside", Int(1)}}, {1, 1, 4, 4}, {1, 1, 3, 6},
            {-5.9591515, -3.5837463, -0.165478235, 2.22746538, -1.0545437, -4.68037761, 3.51449424, 2.28538603, 0.548086661, -0.540382668,
             -1.80514706, -2.61101974, -0.618349073, 1.39573948, 2.0004584, -3.16046935, -2.55575042, -0.541661868}),
    toSizes(13, {{"mode", Text("cubic")}, {"coordinate_transformation_mode", Text("align_corners")}}, {1, 1, 4, 4}, {1, 1, 3, 6},
            {-6.25, -3.919, -0.175, 3.065, 0.3955, -5, 3.74609375, 2.17123438, 0.342875, -0.42240625, -1.6495, -2.5, -1.25, 2.4445, 2.3,
             -3.55, -3.6945, 0}),
    {"Resize",
     18,
     {{"mode", Text("linear")}, {"axes", Ints{3, 2}}, {"keep_aspect_ratio_policy", Text("not_larger")}},
     {1, 1, 4, 3},
     {{{}, 0}, {{}, 0}, {{6, 7}, 1}},
     {1, 1, 7, 5},
     {-6.25,     -4.5982141,  -1.9553571, 0.6875,      3,           -5.8035717, -4.1517859, -1.5089284, 1.1339287,
      3.4464285, -5.0892859,  -3.4375,    -0.79464263, 1.8482144,   4.1607141,  -4.375,     -2.7232141, -0.080356985,
      2.5625,    4.875,       -3.6607141, -2.0089285,  0.63392866,  2.8258932,  4.6875005,  -2.9464288, -1.2946429,
      1.3482144, -0.06696403, -1.8124993, -2.5,        -0.84821427, 1.794643,   -1.875,     -5.875}},
    {"Resize",
     18,
     {{"mode", Text("nearest")}, {"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", Text("not_smaller")}},
     {1, 1, 4, 3},
     {{{}, 0}, {{}, 0}, {{6, 7}, 1}},
     {1, 1, 9, 7},
     {-6.25,  -6.25,  -1.625, -1.625, -1.625, 3,     3,      -6.25,  -6.25,  -1.625, -1.625, -1.625, 3,     3,      -5,     -5,
      -0.375, -0.375, -0.375, 4.25,   4.25,   -5,    -5,     -0.375, -0.375, -0.375, 4.25,   4.25,   -5,    -5,     -0.375, -0.375,
      -0.375, 4.25,   4.25,   -3.75,  -3.75,  0.875, 0.875,  0.875,  5.5,    5.5,    -3.75,  -3.75,  0.875, 0.875,  0.875,  5.5,
      5.5,    -2.5,   -2.5,   2.125,  2.125,  2.125, -5.875, -5.875, -2.5,   -2.5,   2.125,  2.125,  2.125, -5.875, -5.875}},
    // Kept ratios make 4.5 columns, 6.67 columns and 3.75 rows: sizes are rounded, halves up.
    {"Resize",
     18,
     {{"mode", Text("nearest")}, {"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", Text("not_larger")}},
     {1, 1, 4, 3},
     {{{}, 0}, {{}, 0}, {{6, 9}, 1}},
     {1, 1, 6, 5},
     {-6.25, -6.25, -1.625, 3,   3,   -6.25, -6.25, -1.625, 3,   3,   -5,   -5,   -0.375, 4.25,   4.25,
      -3.75, -3.75, 0.875,  5.5, 5.5, -3.75, -3.75, 0.875,  5.5, 5.5, -2.5, -2.5, 2.125,  -5.875, -5.875}},
    {"Resize",
     18,
     {{"mode", Text("nearest")}, {"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", Text("not_smaller")}},
     {1, 1, 3, 5},
     {{{}, 0}, {{}, 0}, {{4, 3}, 1}},
     {1, 1, 4, 7},
     {-6.25, -1.625, -1.625, 3,     -5,  -0.375, -0.375, 4.25,  -3.75,  -3.75,  0.875, 5.5,   -2.5,   -2.5,
      4.25,  -3.75,  -3.75,  0.875, 5.5, -2.5,   -2.5,   2.125, -5.875, -5.875, -1.25, 3.375, -4.625, -4.625}},
    {"Resize",
     18,
     {{"mode", Text("nearest")}, {"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", Text("not_smaller")}},
     {1, 1, 5, 4},
     {{{}, 0}, {{}, 0}, {{2, 3}, 1}},
     {1, 1, 4, 3},
     {-6.25, -1.625, -5, -0.375, 4.25, 0.875, -1.25, 3.375, 0, 4.625, -3.375, 5.875}},
    {"Resize",
     19,
     {{"mode", Text("linear")}, {"antialias", Int(1)}},
     {1, 1, 4, 10},
     {{{}, 0}, {{}, 0}, {{1, 1, 2, 4}, 1}},
     {1, 1, 2, 4},
     {-1.99562514, -0.738749921, 0.311250031, 1.44187486, 0.540624976, -0.85374999, 0.196249992, 0.948125005}},
    {"Resize",
     19,
     {{"mode", Text("linear")}, {"antialias", Int(1)}, {"exclude_outside", Int(1)}},
     {1, 1, 4, 10},
     {{{}, 0}, {{}, 0}, {{1, 1, 2, 4}, 1}},
     {1, 1, 2, 4},
     {-1.87337685, -0.721428573, 0.328571439, 1.48051953, 0.0560065508, -0.835000038, 0.215000004, 1.0324676}},
    {"Resize",
     19,
     {{"mode", Text("cubic")}, {"antialias", Int(1)}, {"exclude_outside", Int(1)}, {"cubic_coeff_a", -0.5f}},
     {1, 1, 3, 7},
     {{{}, 0}, {{}, 0}, {{1, 1, 5, 3}, 1}},
     {1, 1, 5, 3},
     {-2.84096356, -0.914647983, 0.315029671, -0.612880657, -1.18193146, -0.0943593524, 2.41280242, -1.35882173, -0.453629032, 0.51491785,
      -0.0541329525, 1.03343916, -1.09332205, 0.832993526, 2.06267118}},
    {"Resize",
     19,
     {{"mode", Text("cubic")}, {"antialias", Int(1)}},
     {1, 1, 6, 5},
     {{{}, 0}, {{1, 1, 0.5, 0.75}, 0}},
     {1, 1, 3, 3},
     {-2.00788317, -0.795509496, 1.06894714, 1.55103532, -2.4443532, 1.37374181, -1.72429894, 1.37958962, -1.60522416}},
    {"Resize",
     19,
     {{"mode", Text("linear")}, {"exclude_outside", Int(1)}, {"coordinate_transformation_mode", Text("asymmetric")}},
     {1, 1, 1, 4},
     {{{}, 0}, {{}, 0}, {{1, 1, 1, 6}, 1}},
     {1, 1, 1, 6},
     {-6.25, -3.16666675, -0.0833333358, 3, -2.33333325, -5}},
    {"Resize",
     19,
     {{"mode", Text("nearest")}, {"extrapolation_value", 7.5f}, {"coordinate_transformation_mode", Text("tf_crop_and_resize")}},
     {1, 1, 4, 4},
     {{{0, 0, 0.25, -0.25, 1, 1, 0.75, 1.125}, 0}, {{}, 0}, {{1, 1, 3, 5}, 1}},
     {1, 1, 3, 5},
     {7.5, -0.375, 4.25, -3.75, 7.5, 7.5, -0.375, 4.25, -3.75, 7.5, 7.5, 5.5, -2.5, 2.125, 7.5}},
    {"Resize",
     19,
     {{"mode", Text("linear")}, {"extrapolation_value", 7.5f}, {"coordinate_transformation_mode", Text("tf_crop_and_resize")}},
     {1, 1, 4, 4},
     {{{0, 0, -0.125, 0.25, 1, 1, 0.75, 1.125}, 0}, {{}, 0}, {{1, 1, 3, 5}, 1}},
     {1, 1, 3, 5},
     {7.5, 7.5, 7.5, 7.5, 7.5, 2.7265625, 0.953369141, -3.08837891, -0.571044922, 7.5, 0.1796875, -0.434570312, 0.134765625, -3.04394531,
      7.5}},
    {"Resize",
     19,
     {{"mode", Text("linear")}, {"coordinate_transformation_mode", Text("tf_crop_and_resize")}},
     {1, 1, 4, 4},
     {{{0, 0, -0.125, 0.25, 1, 1, 0.75, 1.125}, 0}, {{}, 0}, {{1, 1, 3, 5}, 1}},
     {1, 1, 3, 5},
     {0, 0, 0, 0, 0, 2.7265625, 0.953369141, -3.08837891, -0.571044922, 0, 0.1796875, -0.434570312, 0.134765625, -3.04394531, 0}},
    {"Resize",
     19,
     {{"mode", Text("cubic")}, {"extrapolation_value", -2.0f}, {"coordinate_transformation_mode", Text("tf_crop_and_resize")}},
     {1, 1, 5, 4},
     {{{0, 0, 1, 0.25, 1, 1, 0, 1.125}, 0}, {{}, 0}, {{1, 1, 4, 3}, 1}},
     {1, 1, 4, 3},
     {-2.05029297, 1.67032623, -2, 2.09271821, -3.02365836, -2, 2.96146127, -2.40303859, -2, -3.16064453, 2.79308319, -2}},
    {"Resize",
     19,
     {{"mode", Text("linear")},
      {"antialias", Int(1)},
      {"axes", Ints{3, 2}},
      {"coordinate_transformation_mode", Text("tf_crop_and_resize")}},
     {1, 1, 5, 4},
     {{{0.125, 0.25, 0.75, 0.5}, 0}, {{0.5, 0.4}, 0}},
     {1, 1, 2, 2},
     {-0.258112997, -0.974158645, 0.976862967, -1.01382208}},
    {"Resize",
     10,
     {{"mode", Text("nearest")}},
     {1, 1, 2, 3},
     {{{1, 1, 2, 1.5}, 0}},
     {1, 1, 4, 4},
     {-6.25, -6.25, -1.625, 3, -6.25, -6.25, -1.625, 3, -5, -5, -0.375, 4.25, -5, -5, -0.375, 4.25}},
    {"Resize",
     10,
     {{"mode", Text("linear")}},
     {1, 1, 2, 3},
     {{{1, 1, 2, 1.5}, 0}},
     {1, 1, 4, 4},
     {-6.25, -3.1666665, -0.083333135, 3, -5.625, -2.5416665, 0.54166687, 3.625, -5, -1.9166665, 1.1666669, 4.25, -5, -1.9166665, 1.1666669,
      4.25}},
    {"Upsample",
     7,
     {{"mode", Text("nearest")}, {"scales", Floats{1.0, 1.0, 2.0, 1.5}}},
     {1, 1, 2, 3},
     {},
     {1, 1, 4, 4},
     {-6.25, -6.25, -1.625, 3, -6.25, -6.25, -1.625, 3, -5, -5, -0.375, 4.25, -5, -5, -0.375, 4.25}},
    {"Upsample", 9, {{"mode", Text("linear")}}, {1, 1, 2, 3}, {{{1, 1, 2, 2}, 0}}, {1, 1, 4, 6}, {-6.25,  -3.9375, -1.625, 0.6875,
                                                                                                  3,      3,       -5.625, -3.3125,
                                                                                                  -1,     1.3125,  3.625,  3.625,
                                                                                                  -5,     -2.6875, -0.375, 1.9375,
                                                                                                  4.25,   4.25,    -5,     -2.6875,
                                                                                                  -0.375, 1.9375,  4.25,   4.25}},
};

Recorded resize(std::vector<Attribute> attributes, std::vector<double> scales) {
  return {"Resize", 19, std::move(attributes), {1, 1, 4}, {{}, {std::move(scales), 0}}, {}, {}};
}

std::string errorOf(std::vector<Attribute> attributes, std::vector<double> scales = {1, 1, 2}) {
  return importError(modelOf(resize(std::move(attributes), std::move(scales))));
}

} // namespace

TEST_CASE("onnx Resize and Upsample", "[frontend]") {
  checkRecorded(kResizes);
}

// An initializer of scales is no parameter: nothing trains it.
TEST_CASE("onnx Resize by initializers", "[frontend]") {
  std::string text = print(*import(modelOf(resize({{"mode", Text("linear")}}, {1, 1, 2}))));
  CHECK_THAT(text, contains("nn.resample"));
  CHECK_THAT(text, !contains("nn.variable"));
}

TEST_CASE("onnx Resize: errors", "[frontend]") {
  CHECK_THAT(errorOf({{"coordinate_transformation_mode", Text("tf_crop")}}),
             contains("attribute \"coordinate_transformation_mode\" \"tf_crop\" is not supported; use one of half_pixel, "));
  CHECK_THAT(errorOf({{"nearest_mode", Text("round")}}), contains("attribute \"nearest_mode\" \"round\" is not supported; use one of "));
  CHECK_THAT(errorOf({{"mode", Text("area")}}), contains("attribute \"mode\" is \"area\"; use nearest, linear or cubic"));
  CHECK_THAT(errorOf({{"antialias", int64_t(1)}}), contains("attribute \"antialias\" is 1 with mode \"nearest\", which has no weights"));
  CHECK_THAT(errorOf({}, {1, 2}), contains("has 2 scales for 3 dims"));
  CHECK_THAT(errorOf({{"axes", Ints{0, 2, -1}}}), contains("attribute \"axes\" names dim 2 twice"));
  CHECK_THAT(errorOf({}, {1, 1, 0.1}), contains("resizes dim 2 from size 4 to size 0; both must be at least 1"));
  CHECK_THAT(errorOf({}, {1, 1, -1}), contains("scale of dim 2 is -1.000000, which gives no size from 4"));
  CHECK_THAT(errorOf({{"exclude_outside", int64_t(1)}}), contains("attribute \"exclude_outside\" is 1 with mode \"nearest\""));
  Recorded sizes{"Resize", 19, {{"keep_aspect_ratio_policy", Text("fit")}}, {1, 1, 4}, {{}, {}, {{1, 1, 8}, 1}}, {}, {}};
  CHECK_THAT(importError(modelOf(sizes)), contains("use stretch, not_larger or not_smaller"));
  CHECK_THAT(importError(modelOf({"Resize", 19, {}, {1, 1, 4}, {}, {}, {}})), contains("has neither scales nor sizes"));
  CHECK_THAT(importError(modelOf({"Upsample", 10, {}, {1, 1, 4}, {}, {}, {}})), contains("is no op of this opset; use Resize"));
  std::vector<Attribute> crop = {{"coordinate_transformation_mode", Text("tf_crop_and_resize")}};
  CHECK_THAT(errorOf(crop), contains("has no input \"roi\", which coordinate_transformation_mode \"tf_crop_and_resize\" needs"));
  Recorded region{"Resize", 19, crop, {1, 1, 4}, {{{0, 0, 0, 1, 1}, 0}, {{1, 1, 2}, 0}}, {}, {}};
  CHECK_THAT(importError(modelOf(region)), contains("input \"roi\" has 5 numbers for 3 dims, which need 6"));
}

TEST_CASE("onnx Resize of bools", "[frontend]") {
  OnnxModel model = OnnxModel(19).input("x", {2}, TensorProto::BOOL).initializer("sizes", TensorProto::INT64, {1}, {4});
  model.node("Resize", {"x", "", "", "sizes"}, {"y"}).output("y");
  ashlar::reference::Tensor y = evaluate(model, {boolean({2}, {0, 1})})[0];
  CHECK(y.getType().getElementType().isInteger(1));
  CHECK(holds(y, {4}, {0, 0, 1, 1}));
}

// What lies outside of the input is the value whatever is in the input, and integers take it, too.
TEST_CASE("onnx Resize: extrapolation", "[frontend]") {
  std::vector<Attribute> attributes = {{"coordinate_transformation_mode", Text("tf_crop_and_resize")}, {"extrapolation_value", 9.0f}};
  auto model = [&](int32_t type, const std::vector<Attribute> &given) {
    OnnxModel m(19);
    m.input("x", {2}, type).initializer("roi", TensorProto::FLOAT, {2}, {-1, 2}).initializer("sizes", TensorProto::INT64, {1}, {4});
    return m.node("Resize", {"x", "roi", "", "sizes"}, {"y"}, given).output("y");
  };
  ashlar::reference::Tensor y = evaluate(model(TensorProto::FLOAT, attributes), {f32({2}, {std::nan(""), 5})})[0];
  CHECK(y.getNumber(0) == 9);
  CHECK(std::isnan(y.getNumber(1)));
  CHECK(y.getNumber(3) == 9);
  CHECK(holds(evaluate(model(TensorProto::INT64, attributes), {i64({2}, {3, 4})})[0], {4}, {9, 3, 4, 9}));
  attributes.back().value = 0.5f;
  CHECK_THAT(importError(model(TensorProto::INT64, attributes)), contains("attribute \"extrapolation_value\" is 0.500000, no i64"));
  attributes.pop_back();
  CHECK(holds(evaluate(model(TensorProto::INT64, attributes), {i64({2}, {3, 4})})[0], {4}, {0, 3, 4, 0}));
}

} // namespace ashlar::test::resizing_test
